package kernel

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/contiv/contiv/models"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	vswitchtest.Run(t, vswitchtest.Config{NewSite: func(t testing.TB) vswitchtest.Site { return newNode(t) }})
}

var serial atomic.Int32

func newNamespace(t testing.TB, kind string) *vswitchtest.Host {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	name := fmt.Sprintf("contiv-%s-%d-%d", kind, os.Getpid(), serial.Add(1))
	root := &vswitchtest.Host{NetNS: "/proc/self/ns/net"}
	root.Exec(t, "ip netns add "+name)
	t.Cleanup(func() { root.Exec(t, "ip netns del "+name) })
	h := &vswitchtest.Host{NetNS: "/var/run/netns/" + name}
	h.Exec(t, "ip link set dev lo up")
	return h
}

type node struct {
	*vswitchtest.Host
	peer *vswitchtest.Host
}

const nic, uplink = "eth0", "uplink"

func newNode(t testing.TB) *node {
	t.Helper()
	n := &node{Host: newNamespace(t, "node"), peer: newNamespace(t, "peer")}
	n.Exec(t, fmt.Sprintf("ip link add name %s type veth peer name %s netns %s", nic, uplink, nsName(n.peer)))
	n.peer.Exec(t, "ip link set dev "+uplink+" up")
	return n
}

// SetCable unplugs the far end by moving it into the node's namespace.
func (n *node) SetCable(t testing.TB, tap *vpp_interfaces.Interface, plugged bool) {
	t.Helper()
	n.Exec(t, "ip link set dev "+tap.GetTap().GetHostIfName()+map[bool]string{true: " up", false: " down"}[plugged])
}

func nsName(h *vswitchtest.Host) string { return strings.TrimPrefix(h.NetNS, "/var/run/netns/") }

func (n *node) NIC() string             { return nic }
func (n *node) Self() *vswitchtest.Host { return n.Host }

func (n *node) Open(t testing.TB) vswitch.VSwitch {
	t.Helper()
	v, err := New(Options{NetNS: n.NetNS})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Connect bridges the far ends of both NICs.
func (n *node) Connect(t testing.TB, other vswitchtest.PacketSite) {
	t.Helper()
	o := other.(*node)
	o.peer.Exec(t, fmt.Sprintf("ip link set dev %s name other netns %s", "uplink", nsName(n.peer)))
	for _, command := range []string{
		"ip link add name sw type bridge", "ip link set dev sw up",
		"ip link set dev uplink master sw", "ip link set dev other master sw up",
	} {
		n.peer.Exec(t, command)
	}
}

func (n *node) Plug(t testing.TB, hostIfName string) *vswitchtest.Host {
	t.Helper()
	pod := newNamespace(t, "pod")
	n.Exec(t, fmt.Sprintf("ip link set dev %s netns %s name eth0", hostIfName, nsName(pod)))
	return pod
}

func (n *node) Foreign(t testing.TB) func() []string {
	t.Helper()
	for _, command := range []string{
		"ip link set dev eth0 up",
		"ip link add name foreign0 type veth peer name foreign1",
		"ip link set dev foreign0 up", "ip link set dev foreign1 up",
		"ip link set dev foreign0 alias foreign", "ip link set dev foreign0 group 7",
		"ip link add name c-foreign type veth peer name c-foreign2",
		"ip addr add 10.200.0.1/24 dev foreign0",
		"ip addr add 10.201.0.1/24 dev eth0",
		"ip route add 10.202.0.0/16 via 10.201.0.9",
		"ip route add blackhole 10.203.0.0/16",
		"ip neigh add 10.201.0.9 lladdr 02:00:00:00:00:09 dev eth0 nud permanent",
		"ip link add name foreignbr type bridge", "ip link set dev foreign1 master foreignbr",
		"bridge fdb add 02:00:00:00:00:08 dev foreign1 master static",
		"ip link add name foreignvx type vxlan id 99 dstport 4790 local 10.200.0.1",
		"bridge fdb append 00:00:00:00:00:00 dev foreignvx dst 10.200.0.2",
		"ip rule add pref 50 from 10.200.0.0/24 lookup 77", "ip -6 rule add pref 90 iif foreign0 lookup 77",
		"ip rule add pref 1100500000 fwmark 0x7 lookup 77", "ip rule add pref 110 lookup 77 protocol 121",
		"ip route add 10.204.0.0/16 via 10.201.0.9 table 77", "ip route add 10.204.0.0/16 via 10.201.0.9 table 121000005",
		"nft add table ip contiv2", "nft add chain ip contiv2 c", "nft add rule ip contiv2 c counter",
	} {
		n.Exec(t, command)
	}
	if hasVRFDevices() {
		n.Exec(t, "ip link add name foreignvrf type vrf table 78")
	}
	state := func() map[string]string {
		s := map[string]string{}
		for _, command := range []string{
			"ip -o link show dev foreign0", "ip -o link show dev c-foreign", "ip -o -4 addr show dev foreign0",
			"ip route show 10.202.0.0/16", "ip route show 10.203.0.0/16", "ip neigh show dev eth0 nud permanent 10.201.0.9",
			"bridge fdb show dev foreign1", "bridge fdb show dev foreignvx", "ip -o -d link show dev foreignbr", "nft list table ip contiv2",
			"ip -4 -o addr show dev eth0 to 10.201.0.0/24",
			"ip -4 route show table local to 10.201.0.0/24", "ip rule", "ip -6 rule", "ip route show table 77", "ip route show table 121000005",
		} {
			for line := range strings.Lines(n.Exec(t, command)) {
				if !strings.HasPrefix(line, "33:33:") && !strings.HasPrefix(line, "01:00:") {
					s[command] += line
				}
			}
		}
		return s
	}
	before := state()
	return func() (damage []string) {
		for command, now := range state() {
			if now != before[command] {
				damage = append(damage, fmt.Sprintf("%s: was %q, is %q", command, before[command], now))
			}
		}
		return damage
	}
}

func (n *node) Accidents() []vswitchtest.Accident {
	topo := vswitchtest.Topology{Node: 1, NIC: nic, Pods: 2}
	tap := own.DeviceName(own.DevInterface, topo.Tap(1))
	bviPort := own.DeviceName(own.DevPort, vswitchtest.BVI)
	vxlan := own.VXLANDeviceName(own.VXLANID{Src: mustAddr(topo.NodeIP()), Vni: 10})
	podRoute := "config/vpp/v2/route/if/" + topo.Tap(1) + "/vrf/0/dst/" + topo.PodIP(1) + "/32/gw/" + topo.PodIP(1)
	iface := models.VPPInterfaceKey
	bd := models.BridgeDomain.KeyPrefix() + vswitchtest.Bridge
	fibKey := models.L2FIB.KeyPrefix() + vswitchtest.Bridge + "/mac/12:2b:00:00:00:02"
	arp := models.VPPARP.KeyPrefix() + "vxlanBVI/192.168.30.2"
	nat := models.NAT44Global.KeyPrefix()

	accident := func(name, commands string, keys ...string) vswitchtest.Accident {
		return vswitchtest.Accident{Name: name, Keys: keys, Do: func(t testing.TB) {
			t.Helper()
			n.ExecAll(t, commands)
		}}
	}
	dropping := func(chain string, keys ...string) vswitchtest.Accident {
		return vswitchtest.Accident{Name: "policy of chain " + chain + " changed", Keys: keys, Do: func(t testing.TB) {
			t.Helper()
			file := t.TempDir() + "/policy"
			check(t, os.WriteFile(file, []byte("add chain "+chain+" { policy drop; }\n"), 0o600))
			n.Exec(t, "nft -f "+file)
		}}
	}
	return []vswitchtest.Accident{
		accident("route deleted", "ip route del "+topo.PodIP(1)+"/32", podRoute),
		accident("blackhole deleted", "ip route del blackhole 10.1.0.0/16", "config/vpp/v2/route/vrf/0/dst/10.1.0.0/16"),
		accident("IPv6 route deleted", "ip -6 route del fd00:1::/64", "config/vpp/v2/route/if/eth0/vrf/0/dst/fd00:1::/64/gw/fd00:16::99"),
		accident("TAP deleted", "ip link del dev "+tap, iface(topo.Tap(1)), podRoute),
		accident("TAP down", "ip link set dev "+tap+" down", iface(topo.Tap(1)), podRoute),
		accident("TAP down and up", "ip link set dev "+tap+" down;ip link set dev "+tap+" up", podRoute),
		accident("MTU changed", "ip link set dev "+tap+" mtu 1300", iface(topo.Tap(1))),
		accident("MAC changed", "ip link set dev "+tap+" address 02:00:00:00:00:01", iface(topo.Tap(1))),
		accident("loopback deleted", "ip link del dev c-vxlanBVI", iface(vswitchtest.BVI), bd, arp),
		accident("address deleted", "ip addr del "+topo.Gateway()+"/24 dev c-podGwLoop", iface(vswitchtest.GatewayLoop)),
		accident("address of the NIC deleted", "ip addr del 192.168.16.1/24 dev eth0", iface(nic)),
		accident("all addresses of a TAP flushed", "ip addr flush dev "+tap, iface(topo.Tap(1))),
		accident("NIC down", "ip link set dev eth0 down", iface(nic)),
		accident("bridge deleted", "ip link del dev cb-vxlanBD", bd, fibKey),
		accident("bridge down", "ip link set dev cb-vxlanBD down", bd),
		accident("port taken out of the bridge", "ip link set dev "+bviPort+" nomaster", bd),
		accident("port flags changed", "bridge link set dev "+vxlan+" flood on", bd),
		accident("port down", "ip link set dev "+bviPort+" down", bd),
		accident("VXLAN device deleted", "ip link del dev "+vxlan, iface("vxlan-default-2"), iface("vxlan-default-3"), bd, fibKey),
		accident("VXLAN device down", "ip link set dev "+vxlan+" down", iface("vxlan-default-2")),
		accident("VXLAN peer removed", "bridge fdb del 00:00:00:00:00:00 dev "+vxlan+" dst 192.168.16.2", iface("vxlan-default-2")),
		accident("FDB entry of the VXLAN device deleted", "bridge fdb del 12:2b:00:00:00:02 dev "+vxlan+" self", fibKey),
		accident("FDB entry of the VXLAN device changed", "bridge fdb replace 12:2b:00:00:00:02 dev "+vxlan+" self dst 192.168.16.9", fibKey),
		accident("FDB entry of the bridge deleted", "bridge fdb del 12:2b:00:00:00:02 dev "+vxlan+" master", fibKey),
		accident("FDB entry of the BVI deleted", "bridge fdb del 12:2b:00:00:00:01 dev "+bviPort+" master", bd),
		accident("neighbour deleted", "ip neigh del 192.168.30.2 dev c-vxlanBVI", arp),
		accident("neighbour changed", "ip neigh replace 192.168.30.2 dev c-vxlanBVI lladdr 02:00:00:00:00:03 nud permanent", arp),
		accident("ruleset flushed", "nft flush ruleset", nat),
		accident("access list flushed", "nft flush chain inet contiv-acl acl/table", models.ACL.KeyPrefix()+"table"),
		accident("access list changed", "nft insert rule bridge contiv-acl acl/table accept", models.ACL.KeyPrefix()+"table"),
		accident("access lists deleted", "nft delete table inet contiv-acl", models.ACL.KeyPrefix()+"table", models.ACL.KeyPrefix()+"macs"),
		accident("interface taken out of access lists", "nft delete element inet contiv-acl egress { "+tap+" }", models.ACL.KeyPrefix()+"table"),
		accident("verdict of access lists changed", "nft flush chain bridge contiv-acl deny", models.ACL.KeyPrefix()+"table"),
		accident("guards deleted", "nft delete table inet contiv-guard", models.SourceGuard.KeyPrefix()+topo.Tap(1), iface("vxlan-default-2")),
		accident("guards of ARP deleted", "nft delete table arp contiv-guard", models.SourceGuard.KeyPrefix()+topo.Tap(1)),
		accident("interface taken out of guards", "nft delete element inet contiv-guard interfaces { "+tap+" }", models.SourceGuard.KeyPrefix()+topo.Tap(1)),
		accident("foreign source permitted", "nft add element inet contiv-guard own4 { "+tap+" . "+topo.PodMAC(1)+" . 10.1.1.99 }", models.SourceGuard.KeyPrefix()+topo.Tap(1)),
		accident("rules of guards changed", "nft insert rule inet contiv-guard sources accept", models.SourceGuard.KeyPrefix()+topo.Tap(1)),
		accident("VXLAN peer forgotten", "nft flush set inet contiv-guard vxlan-tunnels4", iface("vxlan-default-2")),
		accident("NAT66 rules flushed", "nft flush chain ip6 contiv nat66-postrouting", models.SourceNAT66.KeyPrefix()+nic),
		accident("rules for services of IPv6 flushed", "nft flush chain ip6 contiv nat-services", models.DNAT66.KeyPrefix()+"default/web"),
		dropping("ip contiv nat-postrouting", nat),
		dropping("ip6 contiv nat66-postrouting", models.SourceNAT66.KeyPrefix()+nic),
		dropping("inet contiv-acl in", models.ACL.KeyPrefix()+"table"),
		dropping("inet contiv-guard sources", models.SourceGuard.KeyPrefix()+topo.Tap(1)),
		accident("NAT rules flushed", "nft flush chain ip contiv nat-source", nat),
		accident("NAT chain deleted", "nft flush chain ip contiv nat-postrouting;nft delete chain ip contiv nat-postrouting", nat),
	}
}

// Batch runs one ip command per line.
func (n *node) Batch(t testing.TB, commands string) {
	t.Helper()
	file := t.TempDir() + "/batch"
	if err := os.WriteFile(file, []byte(commands), 0o600); err != nil {
		t.Fatal(err)
	}
	n.Exec(t, "ip -batch "+file)
}
