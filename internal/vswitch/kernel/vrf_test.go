package kernel

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// Routes that the kernel adds to VRF 0 when a guest is set up are removed again.
func TestAddressesStayOutOfTheTableLocal(t *testing.T) {
	needVRFDevices(t)
	n := newNode(t)
	n.Exec(t, "ip link set dev eth0 up")
	n.Exec(t, "ip addr add 10.7.0.1/24 dev eth0")
	v := openKernel(t, n)
	ctx := t.Context()
	check(t, v.VRFs().Create(ctx, &vpp_l3.VrfTable{Id: 5}))
	iface := &vpp_interfaces.Interface{Name: nic, Type: vpp_interfaces.Interface_DPDK, Enabled: true, Vrf: 5, IpAddresses: []string{"10.50.0.9/24"}}
	check(t, v.Interfaces().Create(ctx, iface))
	check(t, v.Interfaces().SetVRF(ctx, nic, 5, vswitch.IPVersions{V4: true}))
	check(t, v.Interfaces().AddAddress(ctx, nic, mustPrefix("10.50.0.9/24")))
	local := func() string { return n.Exec(t, "ip route show table local dev eth0 10.50.0.9") }
	if out := local(); out != "" {
		t.Errorf("in the table local: %s", out)
	}
	// Watch only reports the interface, which is listed without the address until the next
	// transaction assigns it again.
	reports := make(chan []string, 100)
	check(t, v.Watch(ctx, func(_ string, keys ...string) { reports <- keys }))
	n.Exec(t, "ip link set dev eth0 down")
	n.Exec(t, "ip link set dev eth0 up")
	deadline := time.After(time.Minute)
	for reported := false; !reported; {
		select {
		case keys := <-reports:
			reported = slices.Contains(keys, models.Key(iface)) && local() != ""
		case <-deadline:
			t.Fatalf("entries of the table local are not reported: %s", local())
		}
	}
	list, err := v.Interfaces().List(ctx, []*vpp_interfaces.Interface{iface})
	check(t, err)
	if len(list) != 1 || len(list[0].GetIpAddresses()) != 0 {
		t.Errorf("listed as %v, want it without the address", list)
	}
	check(t, v.Interfaces().AddAddress(ctx, nic, mustPrefix("10.50.0.9/24")))
	if out := local(); out != "" {
		t.Errorf("after the repair, in the table local: %s", out)
	}
}

func TestUninstallRemovesVRFs(t *testing.T) {
	needVRFDevices(t)
	n := newNode(t)
	// The kernel's rule for VRF devices stays, see package vrf.
	rules := func() string {
		return strings.ReplaceAll(n.Exec(t, "ip rule")+n.Exec(t, "ip -6 rule"), "1000:\tfrom all lookup [l3mdev-table]\n", "")
	}
	before := rules()
	v := openKernel(t, n)
	ctx := t.Context()
	for _, protocol := range []vpp_l3.VrfTable_Protocol{vpp_l3.VrfTable_IPV4, vpp_l3.VrfTable_IPV6} {
		check(t, v.VRFs().Create(ctx, &vpp_l3.VrfTable{Id: 5, Protocol: protocol}))
	}
	iface := tap("a")
	iface.Vrf, iface.IpAddresses = 5, []string{"10.50.0.9/24", "fd00:50::9/64"}
	check(t, v.Interfaces().Create(ctx, iface))
	check(t, v.Interfaces().SetVRF(ctx, "a", 5, vswitch.IPVersions{V4: true, V6: true}))
	for _, addr := range iface.GetIpAddresses() {
		check(t, v.Interfaces().AddAddress(ctx, "a", mustPrefix(addr)))
	}
	check(t, v.Routes().Create(ctx, &vpp_l3.Route{Type: vpp_l3.Route_INTER_VRF, VrfId: 5, DstNetwork: "0.0.0.0/0"}))
	v.Close()

	v = openKernel(t, n)
	err := v.Uninstall(ctx)
	for _, left := range []string{"device c-a", "route to 0.0.0.0/0"} {
		if err == nil || !strings.Contains(err.Error(), left) {
			t.Errorf("got %v, want an error that names %s", err, left)
		}
	}
	if after := rules(); after != before {
		t.Errorf("rules were\n%sand are\n%s", before, after)
	}
	if out := n.Exec(t, "ip route show table all proto 125") + n.Exec(t, "nft list tables"); out != "" {
		t.Errorf("left: %s", out)
	}
}

func TestForeignAddressOfADeviceInAVRF(t *testing.T) {
	needVRFDevices(t)
	n := newNode(t)
	n.Exec(t, "ip link set dev eth0 up")
	n.Exec(t, "ip addr add 10.7.0.1/24 dev eth0")
	before := n.Exec(t, "ip route show table local")
	v := openKernel(t, n)
	ctx := t.Context()
	check(t, v.VRFs().Create(ctx, &vpp_l3.VrfTable{Id: 5}))
	dev := &vpp_interfaces.Interface{
		Name: nic, Type: vpp_interfaces.Interface_DPDK, Enabled: true, Vrf: 5, IpAddresses: []string{"10.7.0.1/24", "10.7.0.2/24"},
	}
	check(t, v.Interfaces().Create(ctx, dev))
	check(t, v.Interfaces().SetVRF(ctx, nic, 5, vswitch.IPVersions{V4: true}))
	check(t, v.Interfaces().AddAddress(ctx, nic, mustPrefix("10.7.0.2/24")))
	if err := v.Interfaces().AddAddress(ctx, nic, mustPrefix("10.7.0.1/24")); err == nil || !strings.Contains(err.Error(), "another program") {
		t.Errorf("got %v, want an error that names the owner of the address", err)
	}
	if after := n.Exec(t, "ip route show table local"); after != before {
		t.Errorf("the table local was\n%sand is\n%s", before, after)
	}
	if out := n.Exec(t, "ip route show table 121000005"); !strings.Contains(out, "local 10.7.0.2") || strings.Contains(out, "10.7.0.1 ") {
		t.Errorf("the table of the VRF is %s", out)
	}
}

// Features without VRF support are refused, in any order of requests.
func TestUnsupportedInVRFs(t *testing.T) {
	needVRFDevices(t)
	n := newNode(t)
	v := openKernel(t, n)
	ctx := t.Context()
	check(t, v.VRFs().Create(ctx, &vpp_l3.VrfTable{Id: 5}))
	inVRF, other := tap("a"), tap("b")
	inVRF.Vrf = 5
	check(t, v.Interfaces().Create(ctx, inVRF))
	check(t, v.Interfaces().Create(ctx, other))
	check(t, v.Interfaces().SetVRF(ctx, "a", 5, vswitch.IPVersions{V4: true}))
	crossConnect := func(name string) error {
		return v.L3XConnects().Create(ctx, &vpp_l3.L3XConnect{Interface: name, Paths: []*vpp_l3.L3XConnect_Path{{OutgoingInterface: "b"}}})
	}
	check(t, crossConnect("b"))
	for name, err := range map[string]error{
		"cross-connect in a VRF":       crossConnect("a"),
		"VRF of a cross-connected one": v.Interfaces().SetVRF(ctx, "b", 5, vswitch.IPVersions{V4: true}),
		"DHCP client":                  v.Interfaces().SetDHCPClient(ctx, "a"),
		"route in VRF 16384":           v.Routes().Create(ctx, &vpp_l3.Route{VrfId: own.MaxVRF + 1, DstNetwork: "10.0.0.0/8", OutgoingInterface: "a"}),
		"range of proxy ARP": v.ProxyARP().Create(ctx, &vpp_l3.ProxyARP{Ranges: []*vpp_l3.ProxyARP_Range{
			{FirstIpAddr: "10.0.0.1", LastIpAddr: "10.0.0.2", VrfId: 5}}}),
	} {
		if !errors.Is(err, kvscheduler.ErrUnsupported) {
			t.Errorf("%s: got %v, want %v", name, err, kvscheduler.ErrUnsupported)
		}
	}
	err := v.Interfaces().SetVRF(ctx, "a", 6, vswitch.IPVersions{V4: true})
	if err == nil || errors.Is(err, kvscheduler.ErrUnsupported) {
		t.Errorf("a VRF that does not exist: got %v, want an error that may go away", err)
	}
}
