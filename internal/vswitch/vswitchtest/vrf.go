package vswitchtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// VRFValues returns two VRFs with the same interface addresses and routes between VRFs.
//
//	VRF 5   a 10.50.0.9, lo5 10.55.0.1 with u   10.99/16 via a        ─┐ 0.0.0.0/0
//	VRF 6   b 10.50.0.9, bvi, the NIC           10.99/16 via b         │
//	VRF 0   m 10.60.0.9                         10.50.0.0/24 ─> VRF 5  ←┘
func VRFValues(nic string) []proto.Message {
	return []proto.Message{
		vrfTable(5, false), vrfTable(5, true), vrfTable(6, false), vrfTable(6, true),
		inVRF(5, tap("a", "10.50.0.9/24", "fd00:50::9/64")),
		inVRF(6, tap("b", "10.50.0.9/24", "fd00:50::9/64")),
		inVRF(5, loopback("lo5", "10.55.0.1/24", "fd00:55::1/64")),
		borrower("u", "lo5"),
		inVRF(6, loopback("bvi", "10.56.0.1/24")),
		&vpp_l2.BridgeDomain{Name: "bd", Forward: true, Flood: true, UnknownUnicastFlood: true, Learn: true,
			Interfaces: []*vpp_l2.BridgeDomain_Interface{{Name: "bvi", BridgedVirtualInterface: true}, {Name: "p"}}},
		tap("p"),
		inVRF(6, &vpp_interfaces.Interface{Name: nic, Type: vpp_interfaces.Interface_DPDK, Enabled: true, IpAddresses: []string{"10.57.0.1/24"}}),
		tap("m", "10.60.0.9/24", "fd00:60::9/64"),
		routeIn(5, "10.99.0.0/16", "10.50.0.2", "a"), routeIn(5, "fd00:99::/64", "fd00:50::2", "a"),
		routeIn(6, "10.99.0.0/16", "10.50.0.2", "b"), routeIn(6, "10.98.0.0/16", "10.56.0.2", "bvi"),
		routeIn(5, "10.55.0.7/32", "", "u"),
		&vpp_l3.Route{Type: vpp_l3.Route_DROP, VrfId: 5, DstNetwork: "10.99.7.0/24"},
		interVRF(5, "0.0.0.0/0", 0), interVRF(0, "10.50.0.0/24", 5),
		interVRF(5, "::/0", 0), interVRF(0, "fd00:50::/64", 5), interVRF(6, "10.60.0.0/25", 0),
		&vpp_l3.ARPEntry{Interface: "a", IpAddress: "10.50.0.77", PhysAddress: "02:fe:00:00:50:77", Static: true},
		&vpp_l3.ARPEntry{Interface: "b", IpAddress: "10.50.0.77", PhysAddress: "02:fe:00:00:50:66", Static: true},
	}
}

func vrfTable(id uint32, ipv6 bool) *vpp_l3.VrfTable {
	table := &vpp_l3.VrfTable{Id: id, Label: "blue"}
	if ipv6 {
		table.Protocol = vpp_l3.VrfTable_IPV6
	}
	return table
}

func inVRF(vrf uint32, iface *vpp_interfaces.Interface) *vpp_interfaces.Interface {
	iface.Vrf = vrf
	return iface
}

func loopback(name string, addrs ...string) *vpp_interfaces.Interface {
	return &vpp_interfaces.Interface{Name: name, Type: vpp_interfaces.Interface_SOFTWARE_LOOPBACK, Enabled: true, IpAddresses: addrs}
}

func afPacket(name, device string, addrs ...string) *vpp_interfaces.Interface {
	return &vpp_interfaces.Interface{
		Name: name, Type: vpp_interfaces.Interface_AF_PACKET, Enabled: true, IpAddresses: addrs,
		Link: &vpp_interfaces.Interface_Afpacket{Afpacket: &vpp_interfaces.AfpacketLink{HostIfName: device}},
	}
}

func borrower(name, lender string) *vpp_interfaces.Interface {
	iface := tap(name)
	iface.Unnumbered = &vpp_interfaces.Interface_Unnumbered{InterfaceWithIp: lender}
	return iface
}

func routeIn(vrf uint32, dst, gw, out string) *vpp_l3.Route {
	return &vpp_l3.Route{VrfId: vrf, DstNetwork: dst, NextHopAddr: gw, OutgoingInterface: out}
}

func interVRF(from uint32, dst string, to uint32) *vpp_l3.Route {
	return &vpp_l3.Route{Type: vpp_l3.Route_INTER_VRF, VrfId: from, DstNetwork: dst, ViaVrfId: to}
}

func runVRFs(t *testing.T, c Config) {
	devices, ok := c.NewSite(t).(VRFDeviceSite)
	if ok {
		if name, _ := devices.VRFDevice(5); name == "" {
			t.Skip("this kernel has no VRF devices (CONFIG_NET_VRF); to run this on one that has: make test-vm VM_JOBS=conformance VM_TESTS=VRFs")
		}
	}
	t.Run("creating twice and deleting twice succeed, also after a restart", func(t *testing.T) {
		site := c.NewSite(t)
		values := VRFValues(site.NIC())
		vs := site.Open(t)
		p := port{t, vs}
		for range 2 {
			for _, v := range inOrder(values) {
				p.create(v)
			}
		}
		p.wantOnly(values, values)
		vs.Close()
		p = port{t, open(t, site)}
		p.wantOnly(values, values)
		for range 2 {
			for _, v := range slices.Backward(inOrder(values)) {
				p.delete(v)
			}
		}
		p.wantOnly(nil, nil)
	})
	t.Run("a restarted agent finds and removes them", func(t *testing.T) {
		testLifecycle(t, c, VRFValues(c.NewSite(t).NIC()))
	})
	t.Run("objects of others stay", func(t *testing.T) {
		site := c.NewSite(t)
		damage := site.Foreign(t)
		a := startAgent(t, site)
		a.resync(VRFValues(site.NIC())...)
		a.stop()
		b := startAgent(t, site)
		b.resync()
		for _, d := range damage() {
			t.Errorf("foreign object: %s", d)
		}
	})
	t.Run("a restarted agent has nothing to do after changes", func(t *testing.T) {
		for _, change := range vrfChanges {
			t.Run(change.name, func(t *testing.T) {
				site := c.NewSite(t)
				values := VRFValues(site.NIC())
				a := startAgent(t, site)
				a.resync(values...)
				changed := edit(values, change.edit)
				if change.name == "interface into VRF 0" && !a.vs.Capabilities().HostStackShared {
					t.Skip("the route between VRFs to the network of the interface is then one to its own network, which such vswitches refuse")
				}
				if ops := a.put(changed...); len(ops) == 0 {
					t.Error("the change executed nothing")
				}
				a.wantConfigured(changed)
				a.stop()
				b := startAgent(t, site)
				wantNothingExecuted(t, "resync after the change", b.resync(changed...))
				wantSomethingExecuted(t, "resync back", b.resync(values...))
				wantNothingExecuted(t, "resync after the change back", b.resync(values...))
			})
		}
	})
	t.Run("values come and go in any order", func(t *testing.T) {
		for seed := range uint64(3) {
			t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { testVRFOrders(t, c, seed) })
		}
	})
	t.Run("changes by other programs are reported and repaired", func(t *testing.T) {
		site, ok := c.NewSite(t).(VRFSite)
		if !ok {
			t.Skip("this driver knows no accidents of VRFs")
		}
		for _, accident := range site.VRFAccidents() {
			t.Run(accident.Name, func(t *testing.T) {
				site := c.NewSite(t).(VRFSite)
				for _, own := range site.VRFAccidents() {
					if own.Name == accident.Name {
						testAccident(t, site, own, VRFValues(site.NIC()))
					}
				}
			})
		}
	})
	t.Run("packets stay in their VRF, and pass where routes lead to another", func(t *testing.T) { runVRFPackets(t, c) })
	t.Run("tools of the host use VRF devices", func(t *testing.T) {
		if !ok {
			t.Skip("this driver has no VRF devices")
		}
		testVRFTools(t, newVRFBench(t, c))
	})
}

// testVRFOrders changes some values in random order, in transactions of several values, and then
// requests all or none. A restarted agent must have nothing to do.
func testVRFOrders(t *testing.T, c Config, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 5))
	site := c.NewSite(t)
	for _, all := range []bool{true, false, true} {
		a := startAgent(t, site)
		values := VRFValues(site.NIC())
		a.resync() // lets the engine discover the values of an earlier run
		put := func(wanted func() bool) {
			random.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
			for batch := range slices.Chunk(values, 1+random.IntN(5)) {
				txn := a.NewTransaction()
				for _, v := range batch {
					if wanted() {
						txn.Put(models.Key(v), v)
					} else {
						txn.Delete(models.Key(v))
					}
				}
				if _, err := txn.Commit(t.Context(), retry); err != nil {
					t.Error(err)
				}
			}
		}
		put(func() bool { return random.IntN(3) > 0 })
		put(func() bool { return random.IntN(2) > 0 })
		put(func() bool { return all })
		a.stop()
		b := startAgent(t, site)
		if all {
			wantNothingExecuted(t, "resync after a restart", b.resync(values...))
			b.wantConfigured(values)
		} else {
			wantNothingExecuted(t, "resync without values after a restart", b.resync())
		}
		b.stop()
	}
}

// inOrder sorts interfaces before bridge domains, because the ports must exist.
func inOrder(values []proto.Message) []proto.Message {
	rank := func(v proto.Message) int {
		switch v.(type) {
		case *vpp_l3.VrfTable:
			return 0
		case *vpp_interfaces.Interface:
			return 1
		case *vpp_l2.BridgeDomain:
			return 2
		}
		return 3
	}
	sorted := slices.Clone(values)
	slices.SortStableFunc(sorted, func(a, b proto.Message) int { return rank(a) - rank(b) })
	return sorted
}

func editRoute(dst string, vrf uint32, fn func(*vpp_l3.Route)) func(proto.Message) proto.Message {
	return func(v proto.Message) proto.Message {
		route, ok := v.(*vpp_l3.Route)
		if !ok || route.GetDstNetwork() != dst || route.GetVrfId() != vrf {
			return nil
		}
		fn(route)
		return route
	}
}

var vrfChanges = []struct {
	name string
	edit func(proto.Message) proto.Message
}{
	{"interface from one VRF into the other", editInterface("b", func(i *vpp_interfaces.Interface) { i.Vrf = 5; i.IpAddresses = []string{"10.58.0.1/24"} })},
	{"interface into VRF 0", editInterface("a", func(i *vpp_interfaces.Interface) { i.Vrf = 0 })},
	{"interface into a VRF", editInterface("m", func(i *vpp_interfaces.Interface) { i.Vrf = 6 })},
	{"lender into the other VRF", editInterface("lo5", func(i *vpp_interfaces.Interface) { i.Vrf = 6 })},
	{"an interface loses its IPv6 address", editInterface("a", func(i *vpp_interfaces.Interface) { i.IpAddresses = []string{"10.50.0.9/24"} })},
	{"other addresses", editInterface("b", func(i *vpp_interfaces.Interface) {
		i.IpAddresses = []string{"10.50.0.8/24", "10.59.0.1/30", "fd00:50::9/64", "fd00:59::1/128"}
	})},
	{"type of a route", editRoute("10.99.7.0/24", 5, func(r *vpp_l3.Route) { r.Type, r.ViaVrfId = vpp_l3.Route_INTER_VRF, 6 })},
	{"where a route leads to", editRoute("0.0.0.0/0", 5, func(r *vpp_l3.Route) { r.ViaVrfId = 6 })},
	{"preference of a route", editRoute("::/0", 5, func(r *vpp_l3.Route) { r.Preference = 7 })},
}
