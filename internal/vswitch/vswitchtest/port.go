package vswitchtest

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/guard"
	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

func runPort(t *testing.T, c Config) {
	t.Run("creating twice and deleting twice succeed", func(t *testing.T) {
		site := c.NewSite(t)
		values := topology(t, site, 1).Values()
		p := port{t, open(t, site)}
		for range 2 {
			for _, v := range values {
				p.create(v)
			}
		}
		for range 2 {
			for i := len(values) - 1; i >= 0; i-- {
				p.delete(values[i])
			}
		}
		p.wantOnly(nil, values)
	})

	t.Run("a restarted agent finds existing objects, and can delete them", func(t *testing.T) {
		site := c.NewSite(t)
		values := topology(t, site, 1).Values()
		vs := site.Open(t)
		p := port{t, vs}
		for _, v := range values {
			p.create(v)
		}
		p.wantOnly(values, values)
		vs.Close()
		p = port{t, open(t, site)}
		p.wantOnly(values, values)
		for i := len(values) - 1; i >= 0; i-- {
			p.delete(values[i])
			// Existing devices and VRF 0 are listed while they are expected.
		}
		p.wantOnly(nil, values)
	})

	t.Run("next hops are added to a multipath route, and removed", func(t *testing.T) {
		site := c.NewSite(t)
		topo := topology(t, site, 2)
		p := port{t, open(t, site)}
		for _, v := range topo.Values() {
			p.create(v)
		}
		for _, dst := range []string{"10.77.0.0/16", "fd00:77::/64"} {
			gw := map[string]string{"10.77.0.0/16": "10.99.0.1", "fd00:77::/64": "fd00:99::1"}[dst]
			paths := []proto.Message{
				&vpp_l3.Route{DstNetwork: dst, NextHopAddr: gw, OutgoingInterface: topo.Tap(1), Weight: 1},
				&vpp_l3.Route{DstNetwork: dst, NextHopAddr: gw, OutgoingInterface: topo.Tap(2), Weight: 3},
				&vpp_l3.Route{DstNetwork: dst, NextHopAddr: gw, OutgoingInterface: BVI, Weight: 2},
			}
			for i, path := range paths {
				p.create(path)
				p.create(path)
				p.wantRoutes(dst, paths[:i+1])
			}
			p.delete(paths[1])
			p.delete(paths[1])
			p.wantRoutes(dst, []proto.Message{paths[0], paths[2]})
			p.delete(paths[0])
			p.wantRoutes(dst, paths[2:])
			p.delete(paths[2])
			p.wantRoutes(dst, nil)
		}
	})

	t.Run("unimplemented values are refused with a reason", func(t *testing.T) {
		site := c.NewSite(t)
		vs := open(t, site)
		if vs.Capabilities().MultipleVRFs {
			t.Skip("this vswitch can")
		}
		err := vs.Interfaces().Create(t.Context(), &vpp_interfaces.Interface{Name: "m", Type: vpp_interfaces.Interface_MEMIF})
		if !errors.Is(err, kvscheduler.ErrUnsupported) {
			t.Errorf("memif: got %v, want %v", err, kvscheduler.ErrUnsupported)
		}
	})

	t.Run("a device of the host may appear after its configuration", func(t *testing.T) {
		err := open(t, c.NewSite(t)).Interfaces().Create(t.Context(),
			&vpp_interfaces.Interface{Name: "nosuchdevice", Type: vpp_interfaces.Interface_DPDK, Enabled: true})
		if err == nil || errors.Is(err, kvscheduler.ErrUnsupported) {
			t.Errorf("got %v, want an error that may go away", err)
		}
	})
}

func versionsOf(iface *vpp_interfaces.Interface) (v vswitch.IPVersions) {
	for _, addr := range iface.GetIpAddresses() {
		if strings.Contains(addr, ":") {
			v.V6 = true
		} else {
			v.V4 = true
		}
	}
	return v
}

type port struct {
	t  testing.TB
	vs vswitch.VSwitch
}

func (p port) create(v proto.Message) {
	p.t.Helper()
	ctx := p.t.Context()
	var err error
	switch v := v.(type) {
	case *vpp_interfaces.Interface:
		err = p.vs.Interfaces().Create(ctx, v)
		if v.GetVrf() != 0 {
			err = errors.Join(err, p.vs.Interfaces().SetVRF(ctx, v.GetName(), v.GetVrf(), versionsOf(v)))
		}
		for _, addr := range v.GetIpAddresses() {
			err = errors.Join(err, p.vs.Interfaces().AddAddress(ctx, v.GetName(), netip.MustParsePrefix(addr)))
		}
		if lender := v.GetUnnumbered().GetInterfaceWithIp(); lender != "" {
			err = errors.Join(err, p.vs.Interfaces().SetUnnumbered(ctx, v.GetName(), lender))
		}
	case *vpp_l2.BridgeDomain:
		err = p.vs.Bridges().Create(ctx, v)
		for _, iface := range v.GetInterfaces() {
			err = errors.Join(err, p.vs.Bridges().Bind(ctx, v.GetName(), iface))
		}
	case *vpp_l2.FIBEntry:
		err = p.vs.FIB().Create(ctx, v)
	case *vpp_l3.Route:
		err = p.vs.Routes().Create(ctx, v)
	case *vpp_l3.ARPEntry:
		err = p.vs.Neighbours().Create(ctx, v)
	case *vpp_l3.VrfTable:
		err = p.vs.VRFs().Create(ctx, v)
	case *vpp_nat.Nat44Global:
		err = p.vs.NAT().Enable(ctx, v)
	case *vpp_nat.Nat44Interface:
		err = p.vs.NAT().AddInterface(ctx, v)
	case *vpp_nat.Nat44AddressPool:
		err = p.vs.NAT().AddPool(ctx, v)
	case *contiv_nat.SourceNAT66:
		err = p.vs.NAT66().Create(ctx, v)
	case *contiv_nat.DNat66:
		err = p.vs.DNAT66().Set(ctx, v)
	case *guard.SourceGuard:
		err = p.vs.SourceGuards().Create(ctx, v)
	case *guard.SourceRanges:
		err = p.vs.SourceRanges().Create(ctx, v)
	case *vpp_acl.ACL:
		err = p.createACL(v)
	}
	if err != nil {
		p.t.Errorf("creating %s: %v", models.Key(v), err)
	}
}

func (p port) delete(v proto.Message) {
	p.t.Helper()
	ctx := p.t.Context()
	var err error
	switch v := v.(type) {
	case *vpp_interfaces.Interface:
		if v.GetUnnumbered() != nil {
			err = p.vs.Interfaces().UnsetUnnumbered(ctx, v.GetName())
		}
		for _, addr := range v.GetIpAddresses() {
			err = errors.Join(err, p.vs.Interfaces().DeleteAddress(ctx, v.GetName(), netip.MustParsePrefix(addr)))
		}
		if v.GetVrf() != 0 {
			err = errors.Join(err, p.vs.Interfaces().UnsetVRF(ctx, v.GetName(), v.GetVrf(), versionsOf(v)))
		}
		err = errors.Join(err, p.vs.Interfaces().Delete(ctx, v))
	case *vpp_l2.BridgeDomain:
		for _, iface := range v.GetInterfaces() {
			err = errors.Join(err, p.vs.Bridges().Unbind(ctx, v.GetName(), iface))
		}
		err = errors.Join(err, p.vs.Bridges().Delete(ctx, v))
	case *vpp_l2.FIBEntry:
		err = p.vs.FIB().Delete(ctx, v)
	case *vpp_l3.Route:
		err = p.vs.Routes().Delete(ctx, v)
	case *vpp_l3.ARPEntry:
		err = p.vs.Neighbours().Delete(ctx, v)
	case *vpp_l3.VrfTable:
		err = p.vs.VRFs().Delete(ctx, v)
	case *vpp_nat.Nat44Global:
		err = p.vs.NAT().Disable(ctx)
	case *vpp_nat.Nat44Interface:
		err = p.vs.NAT().RemoveInterface(ctx, v)
	case *vpp_nat.Nat44AddressPool:
		err = p.vs.NAT().RemovePool(ctx, v)
	case *contiv_nat.SourceNAT66:
		err = p.vs.NAT66().Delete(ctx, v)
	case *contiv_nat.DNat66:
		err = p.vs.DNAT66().Remove(ctx, v)
	case *guard.SourceGuard:
		err = p.vs.SourceGuards().Delete(ctx, v)
	case *guard.SourceRanges:
		err = p.vs.SourceRanges().Delete(ctx, v)
	case *vpp_acl.ACL:
		err = p.deleteACL(v)
	}
	if err != nil {
		p.t.Errorf("deleting %s: %v", models.Key(v), err)
	}
}

// list reads all values back. expected is passed to the driver.
func (p port) list(expected []proto.Message) map[string]proto.Message {
	p.t.Helper()
	ctx := p.t.Context()
	found := map[string]proto.Message{}
	add(p.t, found, expected, func(e []*vpp_interfaces.Interface) ([]*vpp_interfaces.Interface, error) {
		return p.vs.Interfaces().List(ctx, e)
	})
	add(p.t, found, expected, func(e []*vpp_l2.BridgeDomain) ([]*vpp_l2.BridgeDomain, error) { return p.vs.Bridges().List(ctx, e) })
	add(p.t, found, expected, func(e []*vpp_l2.FIBEntry) ([]*vpp_l2.FIBEntry, error) { return p.vs.FIB().List(ctx, e) })
	add(p.t, found, expected, func(e []*vpp_l3.Route) ([]*vpp_l3.Route, error) { return p.vs.Routes().List(ctx, e) })
	add(p.t, found, expected, func(e []*vpp_l3.ARPEntry) ([]*vpp_l3.ARPEntry, error) { return p.vs.Neighbours().List(ctx, e) })
	add(p.t, found, expected, func(e []*vpp_l3.VrfTable) ([]*vpp_l3.VrfTable, error) { return p.vs.VRFs().List(ctx, e) })
	add(p.t, found, expected, func(e []*vpp_nat.Nat44Global) ([]*vpp_nat.Nat44Global, error) {
		var want *vpp_nat.Nat44Global
		if len(e) > 0 {
			want = e[0]
		}
		g, err := p.vs.NAT().Global(ctx, want)
		if g == nil {
			return nil, err
		}
		return []*vpp_nat.Nat44Global{g}, err
	})
	add(p.t, found, expected, func(e []*vpp_nat.Nat44Interface) ([]*vpp_nat.Nat44Interface, error) {
		return p.vs.NAT().ListInterfaces(ctx, e)
	})
	add(p.t, found, expected, func(e []*vpp_nat.Nat44AddressPool) ([]*vpp_nat.Nat44AddressPool, error) {
		return p.vs.NAT().ListPools(ctx, e)
	})
	add(p.t, found, expected, func(e []*contiv_nat.SourceNAT66) ([]*contiv_nat.SourceNAT66, error) { return p.vs.NAT66().List(ctx, e) })
	add(p.t, found, expected, func(e []*contiv_nat.DNat66) ([]*contiv_nat.DNat66, error) { return p.vs.DNAT66().List(ctx, e) })
	if guards := p.vs.SourceGuards(); guards != nil {
		add(p.t, found, expected, func(e []*guard.SourceGuard) ([]*guard.SourceGuard, error) { return guards.List(ctx, e) })
	}
	if ranges := p.vs.SourceRanges(); ranges != nil {
		add(p.t, found, expected, func(e []*guard.SourceRanges) ([]*guard.SourceRanges, error) { return ranges.List(ctx, e) })
	}
	add(p.t, found, expected, func(e []*vpp_acl.ACL) ([]*vpp_acl.ACL, error) { return p.vs.ACLs().List(ctx, e) })
	return found
}

func add[V proto.Message](t testing.TB, found map[string]proto.Message, expected []proto.Message, list func([]V) ([]V, error)) {
	t.Helper()
	var typed []V
	for _, e := range expected {
		if v, ok := e.(V); ok {
			typed = append(typed, v)
		}
	}
	values, err := list(typed)
	if err != nil {
		t.Errorf("listing: %v", err)
	}
	for _, v := range values {
		found[models.Key(v)] = v
	}
}

// wantOnly checks that exactly the wanted values are listed, with or without expected values.
// Objects without a name are listed only if expected.
func (p port) wantOnly(wanted, all []proto.Message) {
	p.t.Helper()
	found := p.list(wanted)
	for _, v := range wanted {
		if found[models.Key(v)] == nil {
			p.t.Errorf("%s is not listed", models.Key(v))
		}
		delete(found, models.Key(v))
	}
	for key, v := range found {
		p.t.Errorf("listed, but not wanted: %s: %v", key, v)
	}
}

func (p port) wantRoutes(dst string, wanted []proto.Message) {
	p.t.Helper()
	found := p.list(wanted)
	for _, w := range wanted {
		have, _ := found[models.Key(w)].(*vpp_l3.Route)
		if have == nil || max(have.GetWeight(), 1) != w.(*vpp_l3.Route).GetWeight() {
			p.t.Errorf("want %v, have %v", w, have)
		}
	}
	for key, v := range found {
		r, ok := v.(*vpp_l3.Route)
		known := false
		for _, w := range wanted {
			known = known || models.Key(w) == key
		}
		if ok && r.GetDstNetwork() == dst && !known {
			p.t.Errorf("unwanted path %v", r)
		}
	}
}
