package kernel

import (
	"os/exec"
	"strings"
	"sync"
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/contiv/contiv/models"
)

// hasVRFDevices creates a VRF device. The driver uses another check.
var hasVRFDevices = sync.OnceValue(func() bool {
	return exec.Command("unshare", "--net", "ip", "link", "add", "name", "probe", "type", "vrf", "table", "77").Run() == nil
})

func needVRFDevices(t testing.TB) {
	t.Helper()
	if !hasVRFDevices() {
		t.Skip("this kernel has no VRF devices (CONFIG_NET_VRF); to run this on one that has: make test-vm VM_JOBS=conformance VM_TESTS='VRFs|VRF'")
	}
}

func (n *node) VRFDevice(vrf uint32) (name string, table uint32) {
	if !hasVRFDevices() {
		return "", 0
	}
	return own.VRFDeviceName(vrf), own.TableOf(vrf)
}

func (n *node) vrfAccident(name, commands string, keys ...string) vswitchtest.Accident {
	return vswitchtest.Accident{Name: name, Keys: keys, Do: func(t testing.TB) {
		t.Helper()
		for command := range strings.SplitSeq(commands, ";") {
			n.Exec(t, command)
		}
	}}
}

func (n *node) VRFAccidents() []vswitchtest.Accident {
	table := func(version string) string { return models.VRFTable.KeyPrefix() + "id/5/protocol/" + version }
	route := models.VPPRoute.KeyPrefix()
	iface := models.VPPInterfaceKey
	return []vswitchtest.Accident{
		n.vrfAccident("VRF device deleted", "ip link del dev cvrf5", table("IPV4")),
		n.vrfAccident("VRF device deleted, interfaces", "ip link del dev cvrf5", iface("a")),
		n.vrfAccident("VRF device down", "ip link set dev cvrf5 down", table("IPV6")),
		n.vrfAccident("VRF device down and up", "ip link set dev cvrf5 down;ip link set dev cvrf5 up", route+"vrf/0/dst/10.50.0.0/24"),
		n.vrfAccident("device taken out of its VRF", "ip link set dev c-a nomaster", iface("a")),
		n.vrfAccident("device put into another VRF", "ip link set dev c-a master cvrf6", iface("a")),
		n.vrfAccident("unnumbered device taken out of its VRF", "ip link set dev c-u nomaster", iface("u")),
		n.vrfAccident("end of the table deleted", "ip route del unreachable default table 121000005 metric 4278198272", table("IPV4")),
		n.vrfAccident("end of the table of IPv6 deleted", "ip -6 route del unreachable default table 121000005 metric 4278198272", table("IPV6")),
		n.vrfAccident("rule of VRF devices deleted", "ip rule del pref 90", table("IPV4")),
		n.vrfAccident("table local put first", "ip -6 rule add pref 0 lookup local", table("IPV6")),
		n.vrfAccident("all rules flushed", "ip rule flush;ip rule add pref 32766 lookup main", table("IPV4")),
		n.vrfAccident("all rules of IPv6 flushed", "ip -6 rule flush;ip -6 rule add pref 32766 lookup main", table("IPV6")),
		n.vrfAccident("address deleted", "ip addr del 10.50.0.9/24 dev c-a", iface("a")),
		n.vrfAccident("interface down and up", "ip link set dev c-a down;ip link set dev c-a up", iface("a")),
		n.vrfAccident("interface deleted", "ip link del dev c-a", iface("a")),
		n.vrfAccident("bridged virtual interface deleted", "ip link del dev c-bvi", iface("bvi")),
		n.vrfAccident("NIC down", "ip link set dev eth0 down", iface(nic)),
		n.vrfAccident("route deleted", "ip route del 10.99.0.0/16 table 121000005", route+"if/a/vrf/5/dst/10.99.0.0/16/gw/10.50.0.2"),
		n.vrfAccident("route into VRF 0 deleted", "ip route del throw default table 121000005", route+"vrf/5/dst/0.0.0.0/0"),
		n.vrfAccident("route into the VRF deleted", "ip route del 10.50.0.0/24 dev cvrf5", route+"vrf/0/dst/10.50.0.0/24"),
		n.vrfAccident("neighbour deleted", "ip neigh del 10.50.0.77 dev c-a", models.VPPARP.KeyPrefix()+"a/10.50.0.77"),
	}
}

func TestRulesOfTheHostStayWithoutVRFs(t *testing.T) {
	needVRFDevices(t)
	n := newNode(t)
	rules := func() string {
		return strings.ReplaceAll(n.Exec(t, "ip rule")+n.Exec(t, "ip -6 rule"), "1000:\tfrom all lookup [l3mdev-table]\n", "")
	}
	before, all := rules(), n.Exec(t, "ip rule")
	v := openKernel(t, n)
	check(t, v.Interfaces().Create(t.Context(), tap("a")))
	if now := n.Exec(t, "ip rule"); now != all {
		t.Errorf("rules were\n%sand without a VRF are\n%s", all, now)
	}
	table := &vpp_l3.VrfTable{Id: 5}
	check(t, v.VRFs().Create(t.Context(), table))
	if now := rules(); now == before {
		t.Errorf("with a VRF, rules are as before:\n%s", now)
	}
	check(t, v.VRFs().Delete(t.Context(), table))
	if now := rules(); now != before {
		t.Errorf("rules were\n%sand after the last VRF are\n%s", before, now)
	}
	if left := n.Exec(t, "ip -d link show") + n.Exec(t, "ip route show table all"); strings.Contains(left, "vrf") || strings.Contains(left, "121000005") {
		t.Errorf("left: %s", left)
	}
}

// A device with foreign addresses or routes does not join a VRF device, because the kernel would
// move the addresses out of VRF 0 or delete the routes. Rules lead it into the VRF as long as it
// has some.
func TestDevicesOfOthersStayOutOfVRFDevices(t *testing.T) {
	needVRFDevices(t)
	n := newNode(t)
	n.Exec(t, "ip link set dev eth0 up")
	n.Exec(t, "ip addr add 10.7.0.1/24 dev eth0")
	n.Exec(t, "ip route add 10.9.0.0/24 dev eth0")
	v := openKernel(t, n)
	ctx := t.Context()
	check(t, v.VRFs().Create(ctx, &vpp_l3.VrfTable{Id: 5}))
	dev := &vpp_interfaces.Interface{Name: nic, Type: vpp_interfaces.Interface_DPDK, Enabled: true, Vrf: 5, IpAddresses: []string{"10.8.0.2/24"}}
	wantIn := func(what string, device bool) {
		t.Helper()
		rules := n.Exec(t, "ip rule")
		in := strings.Contains(n.Exec(t, "ip link show dev eth0"), "master cvrf5")
		led := strings.Contains(rules, "90:\tfrom all iif eth0 lookup 121000005 proto 121")
		if in != device || led == device {
			t.Errorf("%s: in the VRF device: %v, by rules: %v", what, in, led)
		}
		list, err := v.Interfaces().List(ctx, []*vpp_interfaces.Interface{dev})
		check(t, err)
		if len(list) != 1 || list[0].GetVrf() != 5 || len(list[0].GetIpAddresses()) != 1 {
			t.Errorf("%s: listed as %v", what, list)
		}
		if table := n.Exec(t, "ip route show table 121000005"); !strings.Contains(table, "local 10.8.0.2 dev eth0") {
			t.Errorf("%s: the table is %s", what, table)
		}
	}
	check(t, v.Interfaces().Create(ctx, dev))
	check(t, v.Interfaces().SetVRF(ctx, nic, 5, vswitch.IPVersions{V4: true}))
	check(t, v.Interfaces().AddAddress(ctx, nic, mustPrefix("10.8.0.2/24")))
	wantIn("with an address and a route of others", false)
	n.Exec(t, "ip addr del 10.7.0.1/24 dev eth0")
	check(t, v.Interfaces().Update(ctx, dev, dev))
	wantIn("with a route of others", false)
	n.Exec(t, "ip route del 10.9.0.0/24 dev eth0")
	check(t, v.Interfaces().Update(ctx, dev, dev))
	wantIn("without anything of others", true)
	check(t, v.Interfaces().DeleteAddress(ctx, nic, mustPrefix("10.8.0.2/24")))
	check(t, v.Interfaces().Delete(ctx, dev))
	if link := n.Exec(t, "ip link show dev eth0"); strings.Contains(link, "master") {
		t.Errorf("it is still in a VRF device: %s", link)
	}
}

// A port of a bridge domain is in no VRF. When it leaves the bridge, it never enters VRF 0.
func TestPortOfABridgeDomainComesBackIntoItsVRF(t *testing.T) {
	needVRFDevices(t)
	n := newNode(t)
	v := openKernel(t, n)
	ctx := t.Context()
	iface := tap("a")
	iface.Vrf = 5
	master := func() string {
		_, after, _ := strings.Cut(n.Exec(t, "ip link show dev c-a"), " master ")
		name, _, _ := strings.Cut(after, " ")
		return name
	}
	check(t, v.Interfaces().Create(ctx, iface))
	if is := master(); is != "cvrf5" {
		t.Errorf("before a table exists, it is in %q", is)
	}
	bd := &vpp_l2.BridgeDomain{Name: "bd", Forward: true}
	port := &vpp_l2.BridgeDomain_Interface{Name: "a"}
	check(t, v.Bridges().Create(ctx, bd))
	check(t, v.Bridges().Bind(ctx, "bd", port))
	check(t, v.Interfaces().Update(ctx, iface, iface))
	if is := master(); is != "cb-bd" {
		t.Errorf("as a port, it is in %q", is)
	}
	check(t, v.Bridges().Unbind(ctx, "bd", port))
	if is := master(); is != "cvrf5" {
		t.Errorf("taken out, it is in %q", is)
	}
	check(t, v.Interfaces().Delete(ctx, iface))
	if links := n.Exec(t, "ip link"); strings.Contains(links, "cvrf5") {
		t.Errorf("the VRF device is left: %s", links)
	}
}
