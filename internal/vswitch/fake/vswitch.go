package fake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

var errClosed = errors.New("the fake vswitch is closed")

// VSwitch is an agent's access to a Node.
type VSwitch struct {
	vswitch.NoExtras

	n        *Node
	closed   bool
	watchers []*watcher
	leases   []func(string, *vpp_interfaces.DHCPLease)
	states   []func(...*vpp_interfaces.InterfaceState)
}

var _ vswitch.VSwitch = (*VSwitch)(nil)

// Open returns access to the node for a starting agent.
func (n *Node) Open() *VSwitch {
	v := &VSwitch{n: n}
	n.net.mu.Lock()
	defer n.net.mu.Unlock()
	n.opened = append(n.opened, v)
	return v
}

func (v *VSwitch) Capabilities() vswitch.Capabilities { return v.n.caps }
func (v *VSwitch) Interfaces() vswitch.Interfaces     { return interfaces{v} }
func (v *VSwitch) Bridges() vswitch.Bridges           { return bridges{v} }
func (v *VSwitch) NAT() vswitch.NAT                   { return nat{v} }
func (v *VSwitch) NAT66() vswitch.NAT66               { return nat66{v} }
func (v *VSwitch) DNAT66() vswitch.DNAT66             { return dnat66{v} }

// ServiceNetworks returns the port for the node's service networks.
func (v *VSwitch) ServiceNetworks() vswitch.Values[*contiv_nat.ServiceNetwork] {
	return serviceNetworks{v}
}
func (v *VSwitch) ACLs() vswitch.ACLs     { return acls{v} }
func (v *VSwitch) Filter() vswitch.Filter { return filters{v} }

// Watch reports the objects that Break removes.
func (v *VSwitch) Watch(ctx context.Context, report func(reason string, keys ...string)) error {
	w := &watcher{report: report}
	err := v.do(ctx, func(n *Node) error {
		n.watchers[w] = true
		v.watchers = append(v.watchers, w)
		return nil
	})
	if err == nil {
		context.AfterFunc(ctx, func() {
			v.n.net.mu.Lock()
			defer v.n.net.mu.Unlock()
			delete(v.n.watchers, w)
		})
	}
	return err
}

// Close ends Watch. The node keeps its state.
func (v *VSwitch) Close() error {
	v.n.net.mu.Lock()
	defer v.n.net.mu.Unlock()
	v.closed = true
	for _, w := range v.watchers {
		delete(v.n.watchers, w)
	}
	v.n.opened = slices.DeleteFunc(v.n.opened, func(o *VSwitch) bool { return o == v })
	return nil
}

func (v *VSwitch) do(ctx context.Context, fn func(*Node) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	v.n.net.mu.Lock()
	defer v.n.net.mu.Unlock()
	if v.closed {
		return errClosed
	}
	return fn(v.n)
}

// list returns copies of the values, sorted by key.
func list[V proto.Message](ctx context.Context, v *VSwitch, values func(*Node) map[string]V) (out []V, err error) {
	err = v.do(ctx, func(n *Node) error {
		m := values(n)
		for _, key := range slices.Sorted(maps.Keys(m)) {
			out = append(out, proto.Clone(m[key]).(V))
		}
		return nil
	})
	return out, err
}

// find returns copies of the expected values that exist.
func find[V proto.Message](ctx context.Context, v *VSwitch, expected []V, values func(*Node) map[string]V) ([]V, error) {
	return list(ctx, v, func(n *Node) map[string]V {
		found, all := make(map[string]V, len(expected)), values(n)
		for _, e := range expected {
			if value, ok := all[models.Key(e)]; ok {
				found[models.Key(e)] = value
			}
		}
		return found
	})
}

// put stores a copy of a value in a table of the node, unless check returns an error.
func put[V proto.Message](ctx context.Context, v *VSwitch, value V, table func(*Node) map[string]V, check func(*Node) error) error {
	return v.do(ctx, func(n *Node) error {
		if check != nil {
			if err := check(n); err != nil {
				return fmt.Errorf("create %s: %w", models.Key(value), err)
			}
		}
		table(n)[models.Key(value)] = proto.Clone(value).(V)
		return nil
	})
}

func drop[V proto.Message](ctx context.Context, v *VSwitch, value V, table func(*Node) map[string]V) error {
	return v.do(ctx, func(n *Node) error {
		delete(table(n), models.Key(value))
		return nil
	})
}

// iface returns an interface by name. It adopts an existing device at its first use, because List
// may have returned it, so that it is never created.
func (n *Node) iface(name string) (*iface, error) {
	if i := n.ifaces[name]; i != nil {
		return i, nil
	}
	if d := n.devices[name]; d != nil {
		n.ifaces[name] = d
		return d, nil
	}
	return nil, fmt.Errorf("interface %q does not exist", name)
}

func (n *Node) checkVRF(id uint32, ipv6 bool) error {
	if id == 0 {
		return nil
	}
	if n.vrfs[models.VRFTableKey(id, ipv6)] == nil {
		return fmt.Errorf("VRF %d does not exist", id)
	}
	return nil
}
