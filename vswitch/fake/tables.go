package fake

import (
	"context"
	"fmt"
	"maps"
	"slices"

	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
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

type fib struct{ v *VSwitch }

func fibTable(n *Node) map[string]*vpp_l2.FIBEntry { return n.fib }

func (p fib) Create(ctx context.Context, e *vpp_l2.FIBEntry) error {
	return put(ctx, p.v, e, fibTable, func(n *Node) error {
		b := n.bridges[e.GetBridgeDomain()]
		switch {
		case b == nil:
			return fmt.Errorf("bridge domain %q does not exist", e.GetBridgeDomain())
		case e.GetAction() == vpp_l2.FIBEntry_FORWARD && b.bound[e.GetOutgoingInterface()] == nil:
			return fmt.Errorf("interface %q is not in bridge domain %q", e.GetOutgoingInterface(), e.GetBridgeDomain())
		}
		return nil
	})
}

func (p fib) Delete(ctx context.Context, e *vpp_l2.FIBEntry) error {
	return drop(ctx, p.v, e, fibTable)
}

func (p fib) List(ctx context.Context, _ []*vpp_l2.FIBEntry) ([]*vpp_l2.FIBEntry, error) {
	return list(ctx, p.v, fibTable)
}

type routes struct{ v *VSwitch }

func routeTable(n *Node) map[string]*vpp_l3.Route { return n.routes }

func (p routes) Create(ctx context.Context, r *vpp_l3.Route) error {
	return put(ctx, p.v, r, routeTable, func(n *Node) error {
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
	})
}

func (p routes) Delete(ctx context.Context, r *vpp_l3.Route) error {
	return drop(ctx, p.v, r, routeTable)
}

func (p routes) List(ctx context.Context, _ []*vpp_l3.Route) ([]*vpp_l3.Route, error) {
	return list(ctx, p.v, routeTable)
}

func (p routes) Find(ctx context.Context, expected []*vpp_l3.Route) ([]*vpp_l3.Route, error) {
	return find(ctx, p.v, expected, routeTable)
}

type neighbours struct{ v *VSwitch }

func neighbourTable(n *Node) map[string]*vpp_l3.ARPEntry { return n.neighbours }

func (p neighbours) Create(ctx context.Context, e *vpp_l3.ARPEntry) error {
	return put(ctx, p.v, e, neighbourTable, func(n *Node) error {
		_, err := n.iface(e.GetInterface())
		return err
	})
}

func (p neighbours) Delete(ctx context.Context, e *vpp_l3.ARPEntry) error {
	return drop(ctx, p.v, e, neighbourTable)
}

func (p neighbours) List(ctx context.Context, _ []*vpp_l3.ARPEntry) ([]*vpp_l3.ARPEntry, error) {
	return list(ctx, p.v, neighbourTable)
}

func (p neighbours) Find(ctx context.Context, expected []*vpp_l3.ARPEntry) ([]*vpp_l3.ARPEntry, error) {
	return find(ctx, p.v, expected, neighbourTable)
}

type vrfs struct{ v *VSwitch }

func vrfTable(n *Node) map[string]*vpp_l3.VrfTable { return n.vrfs }

func (p vrfs) Create(ctx context.Context, t *vpp_l3.VrfTable) error {
	return put(ctx, p.v, t, vrfTable, func(*Node) error { return nil })
}

func (p vrfs) Update(ctx context.Context, _, t *vpp_l3.VrfTable) error { return p.Create(ctx, t) }

func (p vrfs) Delete(ctx context.Context, t *vpp_l3.VrfTable) error {
	return drop(ctx, p.v, t, vrfTable)
}

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
