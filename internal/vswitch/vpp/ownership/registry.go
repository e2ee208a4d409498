package ownership

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	interfaces_api "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/interface_types"
)

type Index = interface_types.InterfaceIndex

// Registry maps logical names of interfaces, which are their tags, to indexes and back. It reads
// VPP for unknown ones.
type Registry struct {
	vpp *session.Session

	mu     sync.Mutex
	byName map[string]Index
	names  map[Index]string
	// learned: all interfaces were read on this connection.
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

// Put records a created or seen interface.
func (x *Registry) Put(name string, i Index) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.byName[name], x.names[i] = i, name
}

// Remove removes a deleted interface.
func (x *Registry) Remove(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.names, x.byName[name])
	delete(x.byName, name)
}

// Gone removes the interface with an index. It returns its name, "" if unknown.
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

// NoInterfaceError reports that no interface has the name.
type NoInterfaceError struct{ Name string }

func (e *NoInterfaceError) Error() string { return fmt.Sprintf("VPP has no interface %s", e.Name) }

// IsNoInterface reports whether an error is a missing interface.
func IsNoInterface(err error) bool {
	_, none := errors.AsType[*NoInterfaceError](err)
	return none
}

// Index returns the index of an interface, or a *NoInterfaceError.
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

// Known is like Index, but reads VPP for unknown names only once per connection: it misses
// interfaces tagged by others later.
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

// Cached returns the last known index of an interface.
func (x *Registry) Cached(name string) (i Index, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	i, ok = x.byName[name]
	return i, ok
}

// Name returns the logical name of an interface, "" for a foreign one.
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
		x.names[i] = "" // avoids reading it repeatedly
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

// Set records all interfaces.
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

// LogicalName returns the tag; for devices without tag, VPP's name.
func LogicalName(d *interfaces_api.SwInterfaceDetails) string {
	return strings.TrimRight(d.Tag, "\x00")
}

// Seen returns the name of a known interface; "" if unknown or foreign.
func (x *Registry) Seen(i Index) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.names[i]
}

var Interfaces = session.NewModule("", "interfaces", &interfaces_api.SwInterfaceDump{}, &interfaces_api.SwInterfaceDetails{})
