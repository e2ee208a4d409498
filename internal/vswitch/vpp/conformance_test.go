package vpp

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/contiv/contiv/models"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/fib_types"
	interfaces_api "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/binapi/ip_neighbor"
	"go.fd.io/govpp/binapi/ip_types"
	"go.fd.io/govpp/binapi/l2"
)

// TestConformance runs the suite on the simulated VPP, without packets.
func TestConformance(t *testing.T) {
	vswitchtest.Run(t, vswitchtest.Config{NewSite: func(t testing.TB) vswitchtest.Site { return newServerSite(t) }})
}

const nicDevice = "eth0"

var silentLog = slog.New(slog.DiscardHandler)

// serverSite is the simulated VPP with a device.
type serverSite struct{ *vpptest.Server }

func newServerSite(t testing.TB) *serverSite {
	t.Helper()
	s := &serverSite{vpptest.New(t)}
	s.AddDevice(nicDevice)
	return s
}

func (s *serverSite) NIC() string { return nicDevice }

func (s *serverSite) Open(t testing.TB) vswitch.VSwitch {
	t.Helper()
	v, err := New(t.Context(), Options{Socket: s.Socket(), Logger: silentLog})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (s *serverSite) index(t testing.TB, name string) ownership.Index {
	t.Helper()
	for _, m := range s.Do(&interfaces_api.SwInterfaceDump{SwIfIndex: ownership.NoIndex}) {
		if d := m.(*interfaces_api.SwInterfaceDetails); ownership.LogicalName(d) == name {
			return d.SwIfIndex
		}
	}
	t.Fatalf("VPP has no interface %s", name)
	return ownership.NoIndex
}

// Foreign creates objects like vppctl: without tags, and routes with another source.
func (s *serverSite) Foreign(t testing.TB) func() []string {
	t.Helper()
	loop := s.Do(&interfaces_api.CreateLoopback{})[0].(*interfaces_api.CreateLoopbackReply).SwIfIndex
	addr, _ := convert.ParseAddr("10.200.0.9")
	mac, _ := convert.ParseMAC("02:00:00:00:00:09")
	drop := fib_types.FibPath{Type: fib_types.FIB_API_PATH_TYPE_DROP, SwIfIndex: uint32(ownership.NoIndex), Weight: 1}
	s.Do(&interfaces_api.SwInterfaceAddDelAddress{SwIfIndex: loop, IsAdd: true, Prefix: ip_types.AddressWithPrefix(convert.Prefix(netip.MustParsePrefix("10.200.0.1/24")))})
	s.Do(&ip_neighbor.IPNeighborAddDel{IsAdd: true, Neighbor: ip_neighbor.IPNeighbor{
		SwIfIndex: loop, IPAddress: convert.Address(addr), MacAddress: mac, Flags: ip_neighbor.IP_API_NEIGHBOR_FLAG_STATIC}})
	s.Do(&ip.IPTableAddDelV2{IsAdd: true, Table: ip.IPTable{TableID: 77}})
	s.Do(&ip.IPRouteAddDelV2{IsAdd: true, Route: ip.IPRouteV2{Src: vpptest.SourceCLI, Prefix: convert.Prefix(parsed("10.203.0.0/16")), Paths: []fib_types.FibPath{drop}}})
	s.Do(&ip.IPRouteAddDelV2{IsAdd: true, Route: ip.IPRouteV2{
		Prefix: convert.Prefix(parsed("10.202.0.0/16")), Paths: []fib_types.FibPath{convert.PathVia(addr, uint32(loop))}}})
	s.Do(&l2.BridgeDomainAddDelV2{IsAdd: true, BdID: 77, Learn: true})
	state := func() map[string]string {
		return map[string]string{
			"interface":   text(s.Do(&interfaces_api.SwInterfaceDump{SwIfIndex: loop})),
			"bridge":      text(s.Do(&l2.BridgeDomainDump{BdID: 77, SwIfIndex: ownership.NoIndex})),
			"neighbour":   text(s.Do(&ip_neighbor.IPNeighborDump{SwIfIndex: loop})),
			"table":       text(s.Do(&ip.IPRouteLookupV2{TableID: 77, Exact: 1})),
			"CLI route":   text(s.Do(lookup(parsed("10.203.0.0/16")))),
			"their route": text(s.Do(lookup(parsed("10.202.0.0/16")))),
		}
	}
	before := state()
	return func() (damage []string) {
		for what, now := range state() {
			if now != before[what] {
				damage = append(damage, fmt.Sprintf("%s: was %s, is %s", what, before[what], now))
			}
		}
		return damage
	}
}

// text formats messages, following pointers.
func text(messages []api.Message) string {
	data, err := json.Marshal(messages)
	return fmt.Sprint(string(data), err)
}

// Accidents returns the changes that VPP reports. TestWhatVPPDoesNotTellOfIsFoundByAResync covers
// the others.
func (s *serverSite) Accidents() []vswitchtest.Accident {
	topo := vswitchtest.Topology{Node: 1, NIC: nicDevice, Pods: 2}
	arp := models.Key(&vpp_l3.ARPEntry{Interface: vswitchtest.BVI, IpAddress: "192.168.30.2"})
	down := func(name string) func(testing.TB) {
		return func(t testing.TB) { s.Do(&interfaces_api.SwInterfaceSetFlags{SwIfIndex: s.index(t, name)}) }
	}
	neighbour := func(t testing.TB, add bool, mac string) *ip_neighbor.IPNeighborAddDel {
		addr, _ := convert.ParseAddr("192.168.30.2")
		m, _ := convert.ParseMAC(mac)
		return &ip_neighbor.IPNeighborAddDel{IsAdd: add, Neighbor: ip_neighbor.IPNeighbor{
			SwIfIndex: s.index(t, vswitchtest.BVI), IPAddress: convert.Address(addr), MacAddress: m, Flags: ip_neighbor.IP_API_NEIGHBOR_FLAG_STATIC}}
	}
	return []vswitchtest.Accident{
		{Name: "TAP down", Do: down(topo.Tap(1)), Keys: []string{models.VPPInterfaceKey(topo.Tap(1))}},
		{Name: "NIC down", Do: down(nicDevice), Keys: []string{models.VPPInterfaceKey(nicDevice)}},
		{Name: "loopback down", Do: down(vswitchtest.GatewayLoop), Keys: []string{models.VPPInterfaceKey(vswitchtest.GatewayLoop)}},
		{Name: "VXLAN tunnel down", Do: down("vxlan-default-2"), Keys: []string{models.VPPInterfaceKey("vxlan-default-2")}},
		{Name: "loopback deleted", Do: func(t testing.TB) {
			s.Do(&interfaces_api.DeleteLoopback{SwIfIndex: s.index(t, vswitchtest.BVI)})
		}, Keys: []string{models.VPPInterfaceKey(vswitchtest.BVI)}},
		{Name: "neighbour deleted", Do: func(t testing.TB) { s.Do(neighbour(t, false, "12:2b:00:00:00:02")) }, Keys: []string{arp}},
		{Name: "neighbour changed", Do: func(t testing.TB) { s.Do(neighbour(t, true, "02:00:00:00:00:03")) }, Keys: []string{arp}},
	}
}

func lookup(dst netip.Prefix) *ip.IPRouteLookupV2 {
	return &ip.IPRouteLookupV2{Exact: 1, Prefix: convert.Prefix(dst)}
}
