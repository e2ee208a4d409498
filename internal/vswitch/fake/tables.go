package fake

import (
	"context"
	"fmt"
	"maps"
	"slices"

	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

type bridges struct{ v *VSwitch }

func (p bridges) Create(ctx context.Context, bd *vpp_l2.BridgeDomain) error {
	return p.v.do(ctx, func(n *Node) error {
		b := n.bridges[bd.GetName()]
		if b == nil {
			b = &bridge{bound: map[string]*vpp_l2.BridgeDomain_Interface{}}
			n.bridges[bd.GetName()] = b
		}
		b.value = proto.CloneOf(bd)
		return nil
	})
}

func (p bridges) Update(ctx context.Context, _, bd *vpp_l2.BridgeDomain) error {
	return p.v.do(ctx, func(n *Node) error {
		b := n.bridges[bd.GetName()]
		if b == nil {
			return fmt.Errorf("bridge domain %q does not exist", bd.GetName())
		}
		b.value = proto.CloneOf(bd)
		return nil
	})
}

func (p bridges) Delete(ctx context.Context, bd *vpp_l2.BridgeDomain) error {
	return p.v.do(ctx, func(n *Node) error {
		n.removeBridge(bd.GetName())
		return nil
	})
}

func (p bridges) List(ctx context.Context, _ []*vpp_l2.BridgeDomain) ([]*vpp_l2.BridgeDomain, error) {
	return list(ctx, p.v, func(n *Node) map[string]*vpp_l2.BridgeDomain {
		values := map[string]*vpp_l2.BridgeDomain{}
		for name, b := range n.bridges {
			v := proto.CloneOf(b.value)
			v.Interfaces = nil
			for _, iface := range slices.Sorted(maps.Keys(b.bound)) {
				v.Interfaces = append(v.Interfaces, b.bound[iface])
			}
			values[name] = v
		}
		return values
	})
}

func (p bridges) Bind(ctx context.Context, bd string, iface *vpp_l2.BridgeDomain_Interface) error {
	return p.v.do(ctx, func(n *Node) error {
		b := n.bridges[bd]
		if b == nil {
			return fmt.Errorf("bridge domain %q does not exist", bd)
		}
		if _, err := n.iface(iface.GetName()); err != nil {
			return fmt.Errorf("bind to bridge domain %q: %w", bd, err)
		}
		b.bound[iface.GetName()] = proto.CloneOf(iface)
		return nil
	})
}

func (p bridges) Unbind(ctx context.Context, bd string, iface *vpp_l2.BridgeDomain_Interface) error {
	return p.v.do(ctx, func(n *Node) error {
		if b := n.bridges[bd]; b != nil {
			delete(b.bound, iface.GetName())
		}
		return nil
	})
}

type table[V proto.Message] struct {
	v      *VSwitch
	values func(*Node) map[string]V
	check  func(*Node, V) error
}

func (t table[V]) Create(ctx context.Context, value V) error {
	return put(ctx, t.v, value, t.values, func(n *Node) error { return t.check(n, value) })
}

func (t table[V]) Delete(ctx context.Context, value V) error { return drop(ctx, t.v, value, t.values) }

func (t table[V]) List(ctx context.Context, _ []V) ([]V, error) { return list(ctx, t.v, t.values) }

func (t table[V]) Find(ctx context.Context, expected []V) ([]V, error) {
	return find(ctx, t.v, expected, t.values)
}

func (v *VSwitch) FIB() vswitch.FIB {
	return table[*vpp_l2.FIBEntry]{v, func(n *Node) map[string]*vpp_l2.FIBEntry { return n.fib }, func(n *Node, e *vpp_l2.FIBEntry) error {
		b := n.bridges[e.GetBridgeDomain()]
		switch {
		case b == nil:
			return fmt.Errorf("bridge domain %q does not exist", e.GetBridgeDomain())
		case e.GetAction() == vpp_l2.FIBEntry_FORWARD && b.bound[e.GetOutgoingInterface()] == nil:
			return fmt.Errorf("interface %q is not in bridge domain %q", e.GetOutgoingInterface(), e.GetBridgeDomain())
		}
		return nil
	}}
}

func (v *VSwitch) Routes() vswitch.Routes {
	return table[*vpp_l3.Route]{v, func(n *Node) map[string]*vpp_l3.Route { return n.routes }, func(n *Node, r *vpp_l3.Route) error {
		if err := n.checkVRF(r.GetVrfId(), isIPv6(r.GetDstNetwork())); err != nil {
			return err
		}
		if r.GetType() == vpp_l3.Route_INTER_VRF {
			if err := n.checkVRF(r.GetViaVrfId(), isIPv6(r.GetDstNetwork())); err != nil {
				return err
			}
		}
		if r.GetOutgoingInterface() == "" {
			return nil
		}
		_, err := n.iface(r.GetOutgoingInterface())
		return err
	}}
}

func (v *VSwitch) Neighbours() vswitch.Neighbours {
	return table[*vpp_l3.ARPEntry]{v, func(n *Node) map[string]*vpp_l3.ARPEntry { return n.neighbours }, func(n *Node, e *vpp_l3.ARPEntry) error {
		_, err := n.iface(e.GetInterface())
		return err
	}}
}

// vrfs returns the table of VRF 0 only if it is expected.
type vrfs struct{ table[*vpp_l3.VrfTable] }

func (v *VSwitch) VRFs() vswitch.VRFs {
	return vrfs{table[*vpp_l3.VrfTable]{v, func(n *Node) map[string]*vpp_l3.VrfTable { return n.vrfs }, func(*Node, *vpp_l3.VrfTable) error { return nil }}}
}

func (p vrfs) Update(ctx context.Context, _, t *vpp_l3.VrfTable) error { return p.Create(ctx, t) }

func (p vrfs) List(ctx context.Context, expected []*vpp_l3.VrfTable) ([]*vpp_l3.VrfTable, error) {
	return list(ctx, p.v, func(n *Node) map[string]*vpp_l3.VrfTable {
		tables := maps.Clone(n.vrfs)
		maps.DeleteFunc(tables, func(_ string, t *vpp_l3.VrfTable) bool { return t.GetId() == 0 })
		for _, e := range expected {
			if e.GetId() != 0 {
				continue
			}
			tables[models.Key(e)] = &vpp_l3.VrfTable{Protocol: e.GetProtocol()}
			if t := n.vrfs[models.Key(e)]; t != nil {
				tables[models.Key(e)] = t
			}
		}
		return tables
	})
}
