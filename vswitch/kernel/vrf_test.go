package kernel

import (
	"strings"
	"testing"
	"time"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/vswitchtest"
)

func (n *node) VRFAccidents() []vswitchtest.Accident {
	table := func(version string) string { return models.VRFTable.KeyPrefix() + "id/5/protocol/" + version }
	route := models.VPPRoute.KeyPrefix()
	iface := models.VPPInterfaceKey
	accident := func(name, commands string, keys ...string) vswitchtest.Accident {
		return vswitchtest.Accident{Name: name, Keys: keys, Do: func(t testing.TB) {
			t.Helper()
			for command := range strings.SplitSeq(commands, ";") {
				n.Exec(t, command)
			}
		}}
	}
	return []vswitchtest.Accident{
		accident("rule of the table deleted", "ip rule del pref 1100500000", table("IPV4")),
		accident("end of the table deleted", "ip -6 rule del pref 1100599999", table("IPV6")),
		accident("rule of the mark deleted", "ip rule del pref 90 fwmark 0x79000005/0xff003fff", table("IPV4")),
		accident("table local put first", "ip rule add pref 0 lookup local", table("IPV4")),
		accident("all rules flushed", "ip rule flush;ip rule add pref 32766 lookup main", table("IPV4")),
		accident("all rules of IPv6 flushed", "ip -6 rule flush;ip -6 rule add pref 32766 lookup main", table("IPV6")),
		accident("rule of what comes in deleted", "ip rule del pref 90 iif c-a", iface("a")),
		accident("rule of what goes out deleted", "ip -6 rule del pref 90 oif c-a", iface("a")),
		accident("isolation deleted", "ip rule del pref 91 iif c-a", iface("a")),
		accident("rules of an unnumbered interface deleted", "ip rule del pref 90 iif c-u;ip rule del pref 91 iif c-u", iface("u")),
		accident("marks deleted", "nft delete table inet contiv-vrf", iface("a")),
		accident("marks flushed", "nft flush map arp contiv-vrf IPv4", iface("a")),
		accident("marking flushed", "nft flush chain inet contiv-vrf in", iface("a")),
		accident("address taken out of the table", "ip route del local 10.50.0.9 dev c-a table 121000005", iface("a")),
		accident("network taken out of the table", "ip -6 route del fd00:50::/64 dev c-a table 121000005", iface("a")),
		accident("address deleted", "ip addr del 10.50.0.9/24 dev c-a", iface("a")),
		accident("interface down and up", "ip link set dev c-a down;ip link set dev c-a up", iface("a")),
		accident("interface deleted", "ip link del dev c-a", iface("a")),
		accident("bridged virtual interface deleted", "ip link del dev c-bvi", iface("bvi")),
		accident("NIC down", "ip link set dev eth0 down", iface(nic)),
		accident("route deleted", "ip route del 10.99.0.0/16 table 121000005", route+"if/a/vrf/5/dst/10.99.0.0/16/gw/10.50.0.2"),
		accident("route into another VRF deleted", "ip route del throw default table 121000005", route+"vrf/5/dst/0.0.0.0/0"),
		accident("rule into another VRF deleted", "ip rule del to 10.50.0.0/24 lookup 121000005", route+"vrf/0/dst/10.50.0.0/24"),
		accident("neighbour deleted", "ip neigh del 10.50.0.77 dev c-a", models.VPPARP.KeyPrefix()+"a/10.50.0.77"),
	}
}

// What the kernel gives to VRF 0 when somebody sets a device up is taken away again.
func TestAddressesStayOutOfTheTableLocal(t *testing.T) {
	n := newNode(t)
	v := openKernel(t, n)
	ctx := t.Context()
	check(t, v.VRFs().Create(ctx, &vpp_l3.VrfTable{Id: 5}))
	iface := tap("a")
	iface.Vrf, iface.IpAddresses = 5, []string{"10.50.0.9/24"}
	check(t, v.Interfaces().Create(ctx, iface))
	check(t, v.Interfaces().SetVRF(ctx, "a", 5, vswitch.IPVersions{V4: true}))
	check(t, v.Interfaces().AddAddress(ctx, "a", mustPrefix("10.50.0.9/24")))
	local := func() string { return n.Exec(t, "ip route show table local dev c-a") }
	if out := local(); out != "" {
		t.Errorf("in the table local: %s", out)
	}
	reports := make(chan string, 100)
	check(t, v.Watch(ctx, func(reason string, _ ...string) { reports <- reason }))
	n.Exec(t, "ip link set dev c-a down")
	n.Exec(t, "ip link set dev c-a up")
	for range 500 {
		if local() == "" {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("in the table local for 5 s: %s", local())
}
