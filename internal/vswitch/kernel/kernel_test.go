package kernel

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/vswitch/kernel/nat"
	"github.com/contiv/contiv/models"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/kvscheduler"
)

func tap(name string) *vpp_interfaces.Interface {
	return &vpp_interfaces.Interface{
		Name: name, Type: vpp_interfaces.Interface_TAP, Enabled: true,
		Link: &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{Version: 2}},
	}
}

func openKernel(t *testing.T, n *node) *VSwitch {
	t.Helper()
	v := n.Open(t).(*VSwitch)
	t.Cleanup(func() { v.Close() })
	return v
}

func TestForeignRouteIsNotReplaced(t *testing.T) {
	n := newNode(t)
	v := openKernel(t, n)
	check(t, v.Interfaces().Create(t.Context(), tap("tap1")))
	n.Exec(t, "ip link set dev eth0 up")
	n.Exec(t, "ip route add 10.5.0.0/16 dev eth0")
	route := &vpp_l3.Route{DstNetwork: "10.5.0.0/16", OutgoingInterface: "tap1"}
	err := v.Routes().Create(t.Context(), route)
	if err == nil || !strings.Contains(err.Error(), "another program has a route") {
		t.Errorf("got %v, want an error that names the owner of the blocking route", err)
	}
	check(t, v.Routes().Delete(t.Context(), route))
	if out := n.Exec(t, "ip route show 10.5.0.0/16"); !strings.Contains(out, "dev eth0") {
		t.Errorf("the route of another program is gone: %q", out)
	}
	n.Exec(t, "ip route del 10.5.0.0/16")
	check(t, v.Routes().Create(t.Context(), route))
}

func TestExistingDevice(t *testing.T) {
	n := newNode(t)
	n.Exec(t, "ip addr add 10.7.0.1/24 dev eth0")
	n.Exec(t, "ip addr add 10.8.0.1/24 dev eth0")
	v := openKernel(t, n)
	ctx := t.Context()
	dev := &vpp_interfaces.Interface{
		Name: nic, Type: vpp_interfaces.Interface_DPDK, Enabled: true, IpAddresses: []string{"10.7.0.1/24", "10.9.0.1/24"},
	}
	check(t, v.Interfaces().Create(ctx, dev))
	for _, addr := range dev.GetIpAddresses() {
		check(t, v.Interfaces().AddAddress(ctx, nic, mustPrefix(addr)))
	}
	list, err := v.Interfaces().List(ctx, []*vpp_interfaces.Interface{dev})
	check(t, err)
	if len(list) != 1 || fmt.Sprint(list[0].GetIpAddresses()) != "[10.7.0.1/24 10.9.0.1/24]" {
		t.Errorf("listed as %v, want it with exactly the addresses that it is wanted with", list)
	}

	restarted := openKernel(t, n)
	list, err = restarted.Interfaces().List(ctx, nil)
	check(t, err)
	if len(list) != 1 || fmt.Sprint(list[0].GetIpAddresses()) != "[10.9.0.1/24]" {
		t.Fatalf("listed as %v, want it with the address that we assigned", list)
	}
	for _, addr := range dev.GetIpAddresses() {
		check(t, restarted.Interfaces().DeleteAddress(ctx, nic, mustPrefix(addr)))
	}
	check(t, restarted.Interfaces().Delete(ctx, list[0]))
	out := n.Exec(t, "ip -o -4 addr show dev eth0")
	if !strings.Contains(out, "10.7.0.1/24") || !strings.Contains(out, "10.8.0.1/24") || strings.Contains(out, "10.9.0.1/24") {
		t.Errorf("addresses now: %s", out)
	}
	if out := n.Exec(t, "ip -o link show dev eth0 up"); out == "" {
		t.Error("the device was put down")
	}
}

func TestHalfMadeDevices(t *testing.T) {
	n := newNode(t)
	v := openKernel(t, n)
	ctx := t.Context()
	n.Exec(t, fmt.Sprintf("ip link add name c-tap1 group %d type veth peer name left1", own.DeviceGroup))
	n.Exec(t, fmt.Sprintf("ip link add name c-tap2 group %d type veth peer name left2", own.DeviceGroup))
	n.Exec(t, fmt.Sprintf("ip link add name cb-bd group %d type bridge", own.DeviceGroup))
	n.Exec(t, "ip link add name c-notours type veth peer name left3")

	check(t, v.Interfaces().Create(ctx, tap("tap1")))
	list, err := v.Interfaces().List(ctx, nil)
	check(t, err)
	for _, iface := range list {
		check(t, v.Interfaces().Delete(ctx, iface))
	}
	domains, err := v.Bridges().List(ctx, nil)
	check(t, err)
	for _, bd := range domains {
		check(t, v.Bridges().Delete(ctx, bd))
	}
	for _, gone := range []string{"c-tap1", "c-tap2", "cb-bd"} {
		if _, err := n.Try("ip link show dev " + gone); err == nil {
			t.Errorf("%s is still there", gone)
		}
	}
	n.Exec(t, "ip link show dev c-notours")
}

func TestDeviceNamesInTheWay(t *testing.T) {
	n := newNode(t)
	v := openKernel(t, n)
	n.Exec(t, "ip link add name c-tap1 type veth peer name far1")
	if err := v.Interfaces().Create(t.Context(), tap("tap1")); err == nil || !strings.Contains(err.Error(), "not ours") {
		t.Errorf("near end: got %v", err)
	}
	other := tap("tap2")
	other.GetTap().HostIfName = "far1"
	if err := v.Interfaces().Create(t.Context(), other); err == nil || !strings.Contains(err.Error(), "host_if_name") {
		t.Errorf("far end: got %v", err)
	}
}

func TestDisabledInterfaceKeepsItsValues(t *testing.T) {
	n := newNode(t)
	v := openKernel(t, n)
	ctx := t.Context()
	up := tap("tap1")
	check(t, v.Interfaces().Create(ctx, up))
	route := &vpp_l3.Route{DstNetwork: "10.5.0.0/16", NextHopAddr: "10.5.0.1", OutgoingInterface: "tap1"}
	arp := &vpp_l3.ARPEntry{Interface: "tap1", IpAddress: "10.5.0.1", PhysAddress: "02:00:00:00:00:01", Static: true}
	check(t, v.Routes().Create(ctx, route))
	check(t, v.Neighbours().Create(ctx, arp))
	down := tap("tap1")
	down.Enabled = false
	check(t, v.Interfaces().Update(ctx, up, down))
	check(t, v.Interfaces().Update(ctx, down, up))
	if list, err := v.Routes().List(ctx, []*vpp_l3.Route{route}); err != nil || len(list) != 1 {
		t.Errorf("routes: %v, %v", list, err)
	}
	if list, err := v.Neighbours().List(ctx, []*vpp_l3.ARPEntry{arp}); err != nil || len(list) != 1 {
		t.Errorf("neighbours: %v, %v", list, err)
	}
}

func TestUnsupported(t *testing.T) {
	v := openKernel(t, newNode(t))
	ctx := t.Context()
	with := func(edit func(*vpp_interfaces.Interface)) error {
		iface := tap("tap1")
		edit(iface)
		return v.Interfaces().Create(ctx, iface)
	}
	for name, err := range map[string]error{
		"VRF":       with(func(i *vpp_interfaces.Interface) { i.Vrf = own.MaxVRF + 1 }),
		"VRF table": v.VRFs().Create(ctx, &vpp_l3.VrfTable{Id: own.MaxVRF + 1}),
		"flow hash": v.VRFs().Create(ctx, &vpp_l3.VrfTable{Id: 1, FlowHashSettings: &vpp_l3.VrfTable_FlowHashSettings{}}),
		"VXLAN in a VRF": with(func(i *vpp_interfaces.Interface) {
			i.Type, i.Vrf, i.Link = vpp_interfaces.Interface_VXLAN_TUNNEL, 1, &vpp_interfaces.Interface_Vxlan{
				Vxlan: &vpp_interfaces.VxlanLink{SrcAddress: "10.0.0.1", DstAddress: "10.0.0.2", Vni: 1}}
		}),
		"FIB drop":   v.FIB().Create(ctx, &vpp_l2.FIBEntry{Action: vpp_l2.FIBEntry_DROP}),
		"no forward": v.Bridges().Create(ctx, &vpp_l2.BridgeDomain{Name: "bd"}),
		"ARP term":   v.Bridges().Create(ctx, &vpp_l2.BridgeDomain{Name: "bd", Forward: true, ArpTermination: true}),
		"NAT in VRF": v.NAT().AddPool(ctx, &vpp_nat.Nat44AddressPool{FirstIp: "10.0.0.1", VrfId: 1}),
		"quotes":     v.NAT().AddInterface(ctx, &vpp_nat.Nat44Interface{Name: `x" accept`, NatOutside: true}),
	} {
		if !errors.Is(err, kvscheduler.ErrUnsupported) {
			t.Errorf("%s: got %v, want %v", name, err, kvscheduler.ErrUnsupported)
		}
	}
	if out := v.mustListDevices(t); strings.Contains(out, "c-") {
		t.Errorf("something was made: %s", out)
	}
}

func (v *VSwitch) mustListDevices(t *testing.T) string {
	t.Helper()
	devs, err := v.Devices()
	check(t, err)
	var names []string
	for _, link := range devs.ByIndex {
		names = append(names, link.Attrs().Name)
	}
	return strings.Join(names, " ")
}

func TestNATWithSeveralPoolsAndInterfaces(t *testing.T) {
	n := newNode(t)
	v := openKernel(t, n)
	ctx := t.Context()
	check(t, v.Interfaces().Create(ctx, tap("tap1")))
	if err := v.NAT().AddPool(ctx, &vpp_nat.Nat44AddressPool{FirstIp: "10.0.0.1"}); !errors.Is(err, nat.ErrDisabled) {
		t.Errorf("pool before NAT is enabled: got %v", err)
	}
	check(t, v.NAT().Enable(ctx, &vpp_nat.Nat44Global{Forwarding: true}))
	interfaces := []*vpp_nat.Nat44Interface{
		{Name: "tap1", NatInside: true}, {Name: nic, NatOutside: true},
	}
	pools := []*vpp_nat.Nat44AddressPool{
		{FirstIp: "10.0.0.1", LastIp: "10.0.0.9"}, {Name: "named", FirstIp: "10.0.1.1"}, {FirstIp: "10.0.2.1", LastIp: "10.0.2.1"},
	}
	for _, i := range interfaces {
		check(t, v.NAT().AddInterface(ctx, i))
	}
	for _, p := range pools {
		check(t, v.NAT().AddPool(ctx, p))
	}
	gotInterfaces, err := v.NAT().ListInterfaces(ctx, interfaces)
	check(t, err)
	gotPools, err := v.NAT().ListPools(ctx, pools)
	check(t, err)
	slices.SortFunc(gotInterfaces, func(a, b *vpp_nat.Nat44Interface) int { return strings.Compare(b.GetName(), a.GetName()) })
	if fmt.Sprint(gotInterfaces) != fmt.Sprint(interfaces) {
		t.Errorf("interfaces: got %v, want %v", gotInterfaces, interfaces)
	}
	if fmt.Sprint(gotPools) != fmt.Sprint(pools) {
		t.Errorf("pools: got %v, want %v", gotPools, pools)
	}
	check(t, v.NAT().RemovePool(ctx, pools[0]))
	if gotPools, err = v.NAT().ListPools(ctx, pools); err != nil || len(gotPools) != 2 {
		t.Errorf("pools after one was removed: %v, %v", gotPools, err)
	}
	if g, err := v.NAT().Global(ctx, nil); err != nil || g == nil {
		t.Errorf("NAT is not in working order: %v, %v", g, err)
	}
}

func TestLostEvents(t *testing.T) {
	n := newNode(t)
	v := openKernel(t, n)
	v.receiveBuffer = 1 // the kernel raises it to its minimum
	values := []*vpp_l3.Route{{DstNetwork: "10.5.0.0/16", OutgoingInterface: "tap1"}}
	check(t, v.Interfaces().Create(t.Context(), tap("tap1")))
	check(t, v.Routes().Create(t.Context(), values[0]))
	reports := make(chan string, 1000)
	check(t, v.Watch(t.Context(), func(reason string, keys ...string) { reports <- fmt.Sprint(reason, len(keys)) }))
	deadline := time.After(time.Minute)
	for {
		var batch strings.Builder
		for i := range 200 {
			fmt.Fprintf(&batch, "route add 10.66.%d.0/24 dev lo\nroute del 10.66.%d.0/24 dev lo\n", i, i)
		}
		n.Batch(t, batch.String())
		select {
		case r := <-reports:
			if strings.HasPrefix(r, "kernel events were lost") {
				if r != "kernel events were lost2" {
					t.Errorf("reported %q, want all 2 keys", r)
				}
				return
			}
		case <-deadline:
			t.Fatal("no report")
		default:
		}
	}
}

func awaitReport(t *testing.T, reports <-chan report, key string) string {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		select {
		case r := <-reports:
			if slices.Contains(r.keys, key) {
				return r.reason
			}
		case <-deadline:
			t.Fatalf("%s is not reported", key)
		}
	}
}

type report struct {
	reason string
	keys   []string
}

// A route blocked by another party's route is retried as soon as that route is deleted, or removed
// with its device.
func TestRouteIsRetriedWhenWhatWasInTheWayIsGone(t *testing.T) {
	for _, command := range []string{"ip route del 10.5.0.0/16", "ip link set dev eth0 down"} {
		t.Run(command, func(t *testing.T) {
			n := newNode(t)
			v := openKernel(t, n)
			check(t, v.Interfaces().Create(t.Context(), tap("tap1")))
			reports := make(chan report, 100)
			check(t, v.Watch(t.Context(), func(reason string, keys ...string) { reports <- report{reason, keys} }))
			n.Exec(t, "ip link set dev eth0 up")
			n.Exec(t, "ip route add 10.5.0.0/16 dev eth0")
			route := &vpp_l3.Route{DstNetwork: "10.5.0.0/16", OutgoingInterface: "tap1"}
			if err := v.Routes().Create(t.Context(), route); err == nil {
				t.Fatal("the route of another program is no obstacle")
			}
			n.Exec(t, command)
			if reason := awaitReport(t, reports, models.Key(route)); !strings.Contains(reason, "was in the way") {
				t.Errorf("reported because %s", reason)
			}
			check(t, v.Routes().Create(t.Context(), route))
		})
	}
}

// Watch reports a route of ours replaced by another party under our protocol number, but not our own
// replacements.
func TestRouteReplacedUnderOurProtocol(t *testing.T) {
	n := newNode(t)
	v := openKernel(t, n)
	ctx := t.Context()
	check(t, v.Interfaces().Create(ctx, tap("tap1")))
	check(t, v.Interfaces().Create(ctx, tap("tap2")))
	reports := make(chan report, 100)
	check(t, v.Watch(ctx, func(reason string, keys ...string) { reports <- report{reason, keys} }))
	route := &vpp_l3.Route{DstNetwork: "10.5.0.0/16", OutgoingInterface: "tap1"}
	other := &vpp_l3.Route{DstNetwork: "10.6.0.0/16", OutgoingInterface: "tap1"}
	second := &vpp_l3.Route{DstNetwork: "10.6.0.0/16", OutgoingInterface: "tap2"}
	for _, r := range []*vpp_l3.Route{route, other, second} { // the last one replaces a route that has two paths
		check(t, v.Routes().Create(ctx, r))
	}
	n.Exec(t, "ip route replace 10.5.0.0/16 dev c-tap2 proto 121")
	if reason := awaitReport(t, reports, models.Key(route)); !strings.Contains(reason, "10.5.0.0/16 was replaced") || strings.Contains(reason, "10.6.0.0") {
		t.Errorf("reported because %s", reason)
	}
}
