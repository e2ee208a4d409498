package ownership

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/contiv/contiv/vswitch/vpp/session"

	interfaces_api "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/interface_types"
)

type Index = interface_types.InterfaceIndex

// Registry knows the indexes of interfaces by their logical names, which are their tags,
// and the other way around. It learns by a dump what it does not know.
type Registry struct {
	vpp *session.Session

	mu     sync.Mutex
	byName map[string]Index
	names  map[Index]string
	// learned: all interfaces were read since the connection was made.
	learned bool
}

func New(vpp *session.Session) *Registry {
	return &Registry{vpp: vpp, byName: map[string]Index{}, names: map[Index]string{}}
}

func (x *Registry) Forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.byName)
	clear(x.names)
	x.learned = false
}

// Put notes an interface that was created or seen.
func (x *Registry) Put(name string, i Index) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.byName[name], x.names[i] = i, name
}

// Remove notes that an interface is gone.
func (x *Registry) Remove(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.names, x.byName[name])
	delete(x.byName, name)
}

// Gone notes that VPP has no interface of that index any more. It returns its name, "" if
// it was not known.
func (x *Registry) Gone(i Index) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	name := x.names[i]
	delete(x.names, i)
	if name != "" && x.byName[name] == i {
		delete(x.byName, name)
	}
	return name
}

// NoInterfaceError says that there is no interface of that name.
type NoInterfaceError struct{ Name string }

func (e *NoInterfaceError) Error() string { return fmt.Sprintf("VPP has no interface %s", e.Name) }

// IsNoInterface reports whether an interface was asked for that does not exist.
func IsNoInterface(err error) bool {
	_, none := errors.AsType[*NoInterfaceError](err)
	return none
}

// Index returns the index of an interface; a *NoInterfaceError if there is none.
func (x *Registry) Index(ctx context.Context, name string) (Index, error) {
	x.mu.Lock()
	i, ok := x.byName[name]
	x.mu.Unlock()
	if ok {
		return i, nil
	}
	if err := x.Learn(ctx); err != nil {
		return 0, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if i, ok = x.byName[name]; !ok {
		return 0, &NoInterfaceError{Name: name}
	}
	return i, nil
}

// Known is like Index, but asks VPP about unknown names only once per connection: it does not find
// interfaces that others have tagged since then.
func (x *Registry) Known(ctx context.Context, name string) (i Index, ok bool, err error) {
	x.mu.Lock()
	i, ok = x.byName[name]
	learned := x.learned
	x.mu.Unlock()
	if ok || learned {
		return i, ok, nil
	}
	i, err = x.Index(ctx, name)
	if _, none := errors.AsType[*NoInterfaceError](err); none {
		return 0, false, nil
	}
	return i, err == nil, err
}

// Cached returns the index of an interface as it was last seen.
func (x *Registry) Cached(name string) (i Index, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	i, ok = x.byName[name]
	return i, ok
}

// Name returns the logical name of an interface, "" if it is not ours.
func (x *Registry) Name(ctx context.Context, i Index) (string, error) {
	x.mu.Lock()
	name, ok := x.names[i]
	x.mu.Unlock()
	if ok {
		return name, nil
	}
	if err := x.Learn(ctx); err != nil {
		return "", err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if name, ok = x.names[i]; !ok {
		x.names[i] = "" // so that it is not asked for again and again
	}
	return name, nil
}

// Learn reads all interfaces.
func (x *Registry) Learn(ctx context.Context) error {
	all, err := x.All(ctx)
	if err != nil {
		return fmt.Errorf("listing interfaces: %w", err)
	}
	x.Set(all)
	return nil
}

// Set notes what all interfaces are.
func (x *Registry) Set(all []*interfaces_api.SwInterfaceDetails) {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.byName)
	clear(x.names)
	for _, d := range all {
		if name := LogicalName(d); name != "" {
			x.byName[name], x.names[d.SwIfIndex] = d.SwIfIndex, name
		}
	}
	x.learned = true
}

// LogicalName returns the tag; that of existing devices without a tag is the name that
// VPP gave them.
func LogicalName(d *interfaces_api.SwInterfaceDetails) string {
	return strings.TrimRight(d.Tag, "\x00")
}

// Seen returns the name of an interface if it is known; "": it is not, or not ours.
func (x *Registry) Seen(i Index) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.names[i]
}

var Interfaces = session.NewModule("", "interfaces", &interfaces_api.SwInterfaceDump{}, &interfaces_api.SwInterfaceDetails{})
