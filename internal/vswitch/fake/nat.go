package fake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

type natTables struct {
	global       *vpp_nat.Nat44Global // nil: off; without its lists
	globalIfaces map[string]*vpp_nat.Nat44Global_Interface
	globalAddrs  map[string]*vpp_nat.Nat44Global_Address
	ifaces       map[string]*vpp_nat.Nat44Interface
	pools        map[string]*vpp_nat.Nat44AddressPool
	dnat         map[string]*vpp_nat.DNat44
	vrfTables    map[string]*vpp_nat.Nat44VrfTable
	vrfRoutes    map[string]*vpp_nat.Nat44VrfRoute
	// clients are the backends of clients with session affinity, the latest first.
	clients map[client][]netip.AddrPort
}

func newNATTables() natTables {
	return natTables{
		globalIfaces: map[string]*vpp_nat.Nat44Global_Interface{}, globalAddrs: map[string]*vpp_nat.Nat44Global_Address{},
		ifaces: map[string]*vpp_nat.Nat44Interface{}, pools: map[string]*vpp_nat.Nat44AddressPool{}, dnat: map[string]*vpp_nat.DNat44{},
		vrfTables: map[string]*vpp_nat.Nat44VrfTable{}, vrfRoutes: map[string]*vpp_nat.Nat44VrfRoute{}, clients: map[client][]netip.AddrPort{},
	}
}

func (t *natTables) keys(keys map[string]bool) {
	if t.global != nil {
		keys[models.NAT44Global.KeyPrefix()] = true
	}
	addKeys(keys, t.ifaces)
	addKeys(keys, t.pools)
	addKeys(keys, t.dnat)
	addKeys(keys, t.vrfTables)
	addKeys(keys, t.vrfRoutes)
}

func (t *natTables) remove(key string) {
	delete(t.ifaces, key)
	delete(t.pools, key)
	delete(t.dnat, key)
	delete(t.vrfTables, key)
	delete(t.vrfRoutes, key)
}

func (t *natTables) forget(iface string) {
	maps.DeleteFunc(t.ifaces, func(_ string, i *vpp_nat.Nat44Interface) bool { return i.GetName() == iface })
	maps.DeleteFunc(t.globalIfaces, func(_ string, i *vpp_nat.Nat44Global_Interface) bool { return i.GetName() == iface })
}

type nat struct{ v *VSwitch }

func natInterfaceTable(n *Node) map[string]*vpp_nat.Nat44Interface { return n.nat.ifaces }
func natPoolTable(n *Node) map[string]*vpp_nat.Nat44AddressPool    { return n.nat.pools }
func dnatTable(n *Node) map[string]*vpp_nat.DNat44                 { return n.nat.dnat }
func natVRFTable(n *Node) map[string]*vpp_nat.Nat44VrfTable        { return n.nat.vrfTables }
func natVRFRoutes(n *Node) map[string]*vpp_nat.Nat44VrfRoute       { return n.nat.vrfRoutes }

func (p nat) Enable(ctx context.Context, g *vpp_nat.Nat44Global) error {
	return p.v.do(ctx, func(n *Node) error {
		n.nat.global = &vpp_nat.Nat44Global{
			Forwarding: g.GetForwarding(), EndpointIndependent: g.GetEndpointIndependent(), VirtualReassembly: proto.CloneOf(g.GetVirtualReassembly()),
		}
		return nil
	})
}

func (p nat) Disable(ctx context.Context) error {
	return p.v.do(ctx, func(n *Node) error {
		n.nat = newNATTables()
		return nil
	})
}

func (p nat) Global(ctx context.Context, _ *vpp_nat.Nat44Global) (g *vpp_nat.Nat44Global, err error) {
	err = p.v.do(ctx, func(n *Node) error {
		if g = proto.CloneOf(n.nat.global); g == nil {
			return nil
		}
		for _, key := range slices.Sorted(maps.Keys(n.nat.globalIfaces)) {
			//lint:ignore SA1019 some still use them
			g.NatInterfaces = append(g.NatInterfaces, proto.CloneOf(n.nat.globalIfaces[key]))
		}
		for _, key := range slices.Sorted(maps.Keys(n.nat.globalAddrs)) {
			//lint:ignore SA1019 some still use them
			g.AddressPool = append(g.AddressPool, proto.CloneOf(n.nat.globalAddrs[key]))
		}
		return nil
	})
	return g, err
}

func natIsOn(n *Node) error {
	if n.nat.global == nil {
		return errors.New("NAT is off")
	}
	return nil
}

func (p nat) AddGlobalInterface(ctx context.Context, i *vpp_nat.Nat44Global_Interface) error {
	return p.v.do(ctx, func(n *Node) error {
		if _, err := n.iface(i.GetName()); err != nil {
			return err
		}
		n.nat.globalIfaces[models.NAT44GlobalInterfaceKey(i.GetName(), i.GetIsInside())] = proto.CloneOf(i)
		return natIsOn(n)
	})
}

func (p nat) RemoveGlobalInterface(ctx context.Context, i *vpp_nat.Nat44Global_Interface) error {
	return p.v.do(ctx, func(n *Node) error {
		delete(n.nat.globalIfaces, models.NAT44GlobalInterfaceKey(i.GetName(), i.GetIsInside()))
		return nil
	})
}

func (p nat) AddGlobalAddress(ctx context.Context, a *vpp_nat.Nat44Global_Address) error {
	return p.v.do(ctx, func(n *Node) error {
		n.nat.globalAddrs[models.NAT44GlobalAddressKey(a.GetAddress(), a.GetTwiceNat())] = proto.CloneOf(a)
		return natIsOn(n)
	})
}

func (p nat) RemoveGlobalAddress(ctx context.Context, a *vpp_nat.Nat44Global_Address) error {
	return p.v.do(ctx, func(n *Node) error {
		delete(n.nat.globalAddrs, models.NAT44GlobalAddressKey(a.GetAddress(), a.GetTwiceNat()))
		return nil
	})
}

func (p nat) AddInterface(ctx context.Context, i *vpp_nat.Nat44Interface) error {
	return put(ctx, p.v, i, natInterfaceTable, func(n *Node) error {
		if err := natIsOn(n); err != nil {
			return err
		}
		_, err := n.iface(i.GetName())
		return err
	})
}

func (p nat) RemoveInterface(ctx context.Context, i *vpp_nat.Nat44Interface) error {
	return drop(ctx, p.v, i, natInterfaceTable)
}

func (p nat) ListInterfaces(ctx context.Context, _ []*vpp_nat.Nat44Interface) ([]*vpp_nat.Nat44Interface, error) {
	return list(ctx, p.v, natInterfaceTable)
}

func (p nat) AddPool(ctx context.Context, pool *vpp_nat.Nat44AddressPool) error {
	return put(ctx, p.v, pool, natPoolTable, natIsOn)
}

func (p nat) RemovePool(ctx context.Context, pool *vpp_nat.Nat44AddressPool) error {
	return drop(ctx, p.v, pool, natPoolTable)
}

func (p nat) ListPools(ctx context.Context, _ []*vpp_nat.Nat44AddressPool) ([]*vpp_nat.Nat44AddressPool, error) {
	return list(ctx, p.v, natPoolTable)
}

func (p nat) SetDNAT(ctx context.Context, values ...*vpp_nat.DNat44) error {
	return p.v.do(ctx, func(n *Node) error {
		if err := natIsOn(n); err != nil {
			return err
		}
		for _, v := range values {
			if err := n.checkDNAT(v); err != nil {
				return fmt.Errorf("DNAT %q: %w", v.GetLabel(), err)
			}
		}
		for _, v := range values {
			n.nat.dnat[models.Key(v)] = proto.CloneOf(v)
		}
		return nil
	})
}

func (n *Node) checkDNAT(v *vpp_nat.DNat44) error {
	for _, m := range v.GetStMappings() {
		for _, other := range n.nat.dnat {
			if other.GetLabel() != v.GetLabel() && slices.ContainsFunc(other.GetStMappings(), func(o *staticMapping) bool { return sameExternal(m, o) }) {
				return fmt.Errorf("%s port %d is mapped already by the DNat44 value %q", m.GetExternalIp(), m.GetExternalPort(), other.GetLabel())
			}
		}
		for _, l := range m.GetLocalIps() {
			if vrf := l.GetVrfId(); vrf != vswitch.AllVRFs {
				if err := n.checkVRF(vrf, false); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (p nat) RemoveDNAT(ctx context.Context, values ...*vpp_nat.DNat44) error {
	return p.v.do(ctx, func(n *Node) error {
		for _, v := range values {
			delete(n.nat.dnat, models.Key(v))
		}
		return nil
	})
}

func (p nat) ListDNAT(ctx context.Context, _ []*vpp_nat.DNat44) ([]*vpp_nat.DNat44, error) {
	return list(ctx, p.v, dnatTable)
}

func (p nat) AddVRFTable(ctx context.Context, t *vpp_nat.Nat44VrfTable) error {
	return put(ctx, p.v, t, natVRFTable, natVRFs)
}

func (p nat) RemoveVRFTable(ctx context.Context, t *vpp_nat.Nat44VrfTable) error {
	return drop(ctx, p.v, t, natVRFTable)
}

func (p nat) ListVRFTables(ctx context.Context, _ []*vpp_nat.Nat44VrfTable) ([]*vpp_nat.Nat44VrfTable, error) {
	return list(ctx, p.v, natVRFTable)
}

func (p nat) AddVRFRoute(ctx context.Context, r *vpp_nat.Nat44VrfRoute) error {
	return put(ctx, p.v, r, natVRFRoutes, natVRFs)
}

func (p nat) RemoveVRFRoute(ctx context.Context, r *vpp_nat.Nat44VrfRoute) error {
	return drop(ctx, p.v, r, natVRFRoutes)
}

func (p nat) ListVRFRoutes(ctx context.Context, _ []*vpp_nat.Nat44VrfRoute) ([]*vpp_nat.Nat44VrfRoute, error) {
	return list(ctx, p.v, natVRFRoutes)
}

func natVRFs(n *Node) error {
	if !n.caps.MultipleVRFs {
		return vswitch.Unsupported("NAT between VRFs: this vswitch translates in VRF 0 only")
	}
	return natIsOn(n)
}

type part struct{ inside, outside, output bool }

func (t *natTables) partOf(iface string) (p part) {
	add := func(name string, inside, outside, output bool) {
		if name == iface {
			p = part{p.inside || inside, p.outside || outside && !output, p.output || output}
		}
	}
	for _, i := range t.ifaces {
		add(i.GetName(), i.GetNatInside(), i.GetNatOutside(), i.GetOutputFeature())
	}
	for _, i := range t.globalIfaces {
		add(i.GetName(), i.GetIsInside(), !i.GetIsInside(), i.GetOutputFeature())
	}
	return p
}

func (t *natTables) firstOfPool(twice bool) (addr netip.Addr, ok bool) {
	var addrs []string
	for _, p := range t.pools {
		if p.GetTwiceNat() == twice {
			addrs = append(addrs, p.GetFirstIp())
		}
	}
	for _, a := range t.globalAddrs {
		if a.GetTwiceNat() == twice {
			addrs = append(addrs, a.GetAddress())
		}
	}
	if len(addrs) == 0 {
		return addr, false
	}
	addr, err := netip.ParseAddr(slices.MinFunc(addrs, cmp.Compare[string]))
	return addr, err == nil
}
