package vpp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	interfaces_api "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/interface_types"
)

type index = interface_types.InterfaceIndex

// ifIndex knows the indexes of interfaces by their logical names, which are their tags,
// and the other way around. It learns by a dump what it does not know.
type ifIndex struct {
	v *VSwitch

	mu     sync.Mutex
	byName map[string]index
	names  map[index]string
	// learned: all interfaces were read since the connection was made.
	learned bool
}

func newIfIndex(v *VSwitch) *ifIndex {
	return &ifIndex{v: v, byName: map[string]index{}, names: map[index]string{}}
}

func (x *ifIndex) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.byName)
	clear(x.names)
	x.learned = false
}

// put notes an interface that was created or seen.
func (x *ifIndex) put(name string, i index) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.byName[name], x.names[i] = i, name
}

// remove notes that an interface is gone.
func (x *ifIndex) remove(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.names, x.byName[name])
	delete(x.byName, name)
}

// gone notes that VPP has no interface of that index any more. It returns its name, "" if
// it was not known.
func (x *ifIndex) gone(i index) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	name := x.names[i]
	delete(x.names, i)
	if name != "" && x.byName[name] == i {
		delete(x.byName, name)
	}
	return name
}

// noInterfaceError says that there is no interface of that name.
type noInterfaceError struct{ name string }

func (e *noInterfaceError) Error() string { return fmt.Sprintf("VPP has no interface %s", e.name) }

// index returns the index of an interface; a *noInterfaceError if there is none.
func (x *ifIndex) index(ctx context.Context, name string) (index, error) {
	x.mu.Lock()
	i, ok := x.byName[name]
	x.mu.Unlock()
	if ok {
		return i, nil
	}
	if err := x.learn(ctx); err != nil {
		return 0, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if i, ok = x.byName[name]; !ok {
		return 0, &noInterfaceError{name}
	}
	return i, nil
}

// known is like index, but what is not known is asked for only once after the connection
// was made: it does not find what others have tagged since then.
func (x *ifIndex) known(ctx context.Context, name string) (i index, ok bool, err error) {
	x.mu.Lock()
	i, ok = x.byName[name]
	learned := x.learned
	x.mu.Unlock()
	if ok || learned {
		return i, ok, nil
	}
	i, err = x.index(ctx, name)
	if _, none := errors.AsType[*noInterfaceError](err); none {
		return 0, false, nil
	}
	return i, err == nil, err
}

// cached returns the index of an interface as it was last seen.
func (x *ifIndex) cached(name string) (i index, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	i, ok = x.byName[name]
	return i, ok
}

// name returns the logical name of an interface, "" if it is not ours.
func (x *ifIndex) name(ctx context.Context, i index) (string, error) {
	x.mu.Lock()
	name, ok := x.names[i]
	x.mu.Unlock()
	if ok {
		return name, nil
	}
	if err := x.learn(ctx); err != nil {
		return "", err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if name, ok = x.names[i]; !ok {
		x.names[i] = "" // so that it is not asked for again and again
	}
	return name, nil
}

// learn reads all interfaces.
func (x *ifIndex) learn(ctx context.Context) error {
	all, err := x.v.allInterfaces(ctx)
	if err != nil {
		return fmt.Errorf("listing interfaces: %w", err)
	}
	x.set(all)
	return nil
}

// set notes what all interfaces are.
func (x *ifIndex) set(all []*interfaces_api.SwInterfaceDetails) {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.byName)
	clear(x.names)
	for _, d := range all {
		if name := logicalName(d); name != "" {
			x.byName[name], x.names[d.SwIfIndex] = d.SwIfIndex, name
		}
	}
	x.learned = true
}

// logicalName returns the tag; that of existing devices without a tag is the name that
// VPP gave them.
func logicalName(d *interfaces_api.SwInterfaceDetails) string {
	return strings.TrimRight(d.Tag, "\x00")
}

var ifModule = newModule("", "interfaces", &interfaces_api.SwInterfaceDump{}, &interfaces_api.SwInterfaceDetails{})
