package pathexplain

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/netlink/nft/foreign"
	"github.com/vishvananda/netns"
)

// inNetNS runs the test in a new network namespace.
func inNetNS(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making network namespaces takes root")
	}
	runtime.LockOSThread() // the thread ends with the test
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
}

func shell(t testing.TB, line string) {
	t.Helper()
	if out, err := exec.Command("sh", "-ec", line).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
}

// Each network problem of the node is reported while it lasts, for all senders.
func TestNetworkOfTheNode(t *testing.T) {
	for name, c := range map[string]struct{ fault, undo, want string }{
		"nothing":    {"true", "true", ""},
		"down":       {"ip link set eth0 down", "ip link set eth0 up; ip route add default via 10.9.0.9", "its device eth0 is down"},
		"no carrier": {"ip link set far down", "ip link set far up", "its device eth0 has no carrier"},
		"MTU": {"ip link set eth0 mtu 1400", "ip link set eth0 mtu 1500",
			"device eth0 has MTU 1400, but packets of pods (1450 bytes, such as default/web) need 1500 on it"},
		"default route": {"ip route del default", "ip route add default via 10.9.0.9", "the node lost its IPv4 default route by eth0"},
		"default route, which the vswitch reports": {"ip route del default", "ip route add default via 10.9.0.9", ""},
		"pods' packets": {"nft add table inet some; nft 'add chain inet some f { type filter hook forward priority 0; }'; nft add rule inet some f ip saddr 10.1.1.0/24 drop", "nft delete table inet some",
			"packets from local pods to pods of node other and 1 more are dropped: a rule of chain f in table inet some drops the packet"},
		"tunnels": {"nft add table inet some; nft 'add chain inet some i { type filter hook input priority 0; }'; nft add rule inet some i ip saddr 10.9.0.2 udp dport 4789 drop", "nft delete table inet some",
			"tunnel packets from node other are dropped: a rule of chain i"},
		"too large": {"nft add table inet some; nft 'add chain inet some o { type filter hook output priority 0; }'; nft add rule inet some o udp dport 4789 meta length 1401-65535 drop", "nft delete table inet some",
			"tunnel packets to node other and 1 more are dropped"},
		"iptables-legacy": {"iptables-legacy -A FORWARD -s 10.1.1.0/24 -j DROP", "iptables-legacy -F",
			"packets from local pods to pods of node other and 1 more are dropped: a rule of chain FORWARD in table ip filter of iptables-legacy"},
		"as they leave": {"nft 'table netdev some { chain e { type filter hook egress device eth0 priority 0; udp dport 4789 drop; }; }'", "nft delete table netdev some",
			"tunnel packets to node other and 1 more are dropped: a rule of chain e in table netdev some"},
		"as they come": {"nft 'table netdev some { chain i { type filter hook ingress device pod priority 0; ip saddr 10.1.1.2 drop; }; }'", "nft delete table netdev some",
			"packets from local pods to pods of node other and 1 more are dropped: a rule of chain i in table netdev some"},
		"sent elsewhere": {"nft 'table ip some { chain p { type nat hook prerouting priority 0; ip daddr 10.1.2.0/24 dnat to 10.9.0.9; }; }'", "nft delete table ip some",
			"packets from local pods to pods of node other get another destination: a rule of chain p in table ip some translates it"},
		// Tunnel packets bypass connection tracking, and thereby NAT.
		"the tunnel's port in a table of NAT":                     {"nft 'table ip some { chain p { type nat hook prerouting priority -100; udp dport 4789 dnat to 10.1.1.2:9000; }; chain o { type nat hook output priority -100; udp dport 4789 redirect to :9000; }; chain s { type nat hook postrouting priority 100; udp dport 4789 masquerade; }; }'", "nft delete table ip some", ""},
		"the tunnel's port in a table of NAT, by iptables-legacy": {"iptables-legacy -t nat -A PREROUTING -p udp --dport 4789 -j DNAT --to-destination 10.1.1.2:9000", "iptables-legacy -t nat -F", ""},
		"the tunnel's port in a table of NAT, tracked in a zone": {"nft 'table ip some { chain z { type filter hook prerouting priority -250; ct zone set 7; }; chain p { type nat hook prerouting priority -100; udp dport 4789 dnat to 10.1.1.2:9000; }; chain o { type nat hook output priority -100; udp dport 4789 redirect to :9000; }; }'", "nft delete table ip some",
			"tunnel packets from node other and 1 more get another destination: a rule of chain p in table ip some translates it"},
		"the tunnel's port in a table of NAT, tracked by iptables-legacy": {"iptables-legacy -t raw -A PREROUTING -p udp -j CT --zone 7; iptables-legacy -t nat -A PREROUTING -p udp --dport 4789 -j DNAT --to-destination 10.1.1.2:9000", "iptables-legacy -t nat -F; iptables-legacy -t raw -F",
			"tunnel packets from node other and 1 more get another destination: a rule of chain PREROUTING in table ip nat of iptables-legacy translates it"},
		"the tunnel's port, rewritten": {"nft 'table ip some { chain p { type filter hook prerouting priority -150; udp dport 4789 udp dport set 9000; }; }'", "nft delete table ip some",
			"tunnel packets from node other and 1 more get another destination: a rule of chain p in table ip some translates it"},
		"the tunnel's source, rewritten": {"nft 'table ip some { chain o { type filter hook output priority 0; udp dport 4789 ip saddr set 10.9.0.77; }; }'", "nft delete table ip some",
			"tunnel packets to node other and 1 more get another source: a rule of chain o in table ip some translates it, so that the receiver drops it"},
		"tunnels, which are no connections": {"nft 'table inet some { chain i { type filter hook input priority 0; policy drop; ct state new,established accept; }; }'", "nft delete table inet some",
			"tunnel packets from node other and 1 more are dropped: the policy of chain i"},
		"another source": {"nft 'table ip some { chain p { type nat hook postrouting priority 100; ip saddr 10.1.0.0/16 masquerade; }; }'", "nft delete table ip some",
			"packets from local pods to pods of node other and 1 more get another source: a rule of chain p in table ip some translates it"},
		"another source, by iptables-legacy": {"iptables-legacy -t nat -A POSTROUTING -s 10.1.0.0/16 -j MASQUERADE", "iptables-legacy -t nat -F",
			"packets from local pods to pods of node other and 1 more get another source: a rule of chain POSTROUTING in table ip nat of iptables-legacy"},
		"another source, to elsewhere": {"nft 'table ip some { chain p { type nat hook postrouting priority 100; ip saddr 10.1.0.0/16 ip daddr != 10.1.0.0/16 masquerade; }; }'", "nft delete table ip some", ""},
		"answers": {"nft 'table inet some { chain f { type filter hook forward priority 0; ct state established drop; }; }'", "nft delete table inet some",
			"answers to packets from local pods to pods of node other are dropped: a rule of chain f"},
		"policy rule": {"ip rule add from 10.1.1.0/24 pref 77 blackhole", "ip rule del pref 77",
			"packets from local pods to pods of node other and 1 more are diverted by policy rule \"77: from 10.1.1.0/24 blackhole\": remove it with `ip rule del pref 77`"},
		"policy rule to a table": {"ip rule add to 10.1.3.0/24 pref 77 lookup 99; ip route add default via 10.9.0.3 table 99", "ip rule del pref 77",
			"packets from local pods to pods of node third are diverted by policy rule \"77: from all to 10.1.3.0/24 lookup 99\""},
		// Source routing is usual on hosts with several networks, and VPNs route node addresses by
		// their own tables.
		"policy rule for the node's own address": {"ip rule add from 10.9.0.1 pref 77 lookup 99; ip rule add to 10.9.0.0/24 pref 78 lookup 99; ip route add 10.9.0.0/24 dev eth0 src 10.9.0.1 table 99; ip route add default via 10.9.0.9 table 99",
			"ip rule del pref 77; ip rule del pref 78; ip route flush table 99", ""},
		"policy rule that stops tunnels": {"ip rule add to 10.9.0.2 pref 77 blackhole", "ip rule del pref 77",
			"tunnel packets to node other are diverted by policy rule \"77: from all to 10.9.0.2/32 blackhole\""},
		"a VPN's policy rules, and no forwarding": {"ip rule add pref 5270 lookup 52; ip route add 100.100.1.1 dev eth0 table 52; ip rule add not fwmark 51820 pref 5300 lookup 51820; ip route add default dev eth0 table 51820; ip rule add pref 5299 lookup main suppress_prefixlength 0; ip rule add pref 1000 l3mdev; sysctl -q net.ipv4.conf.pod.forwarding=0",
			"sysctl -q net.ipv4.conf.pod.forwarding=1; ip rule del pref 5270; ip rule del pref 5299; ip rule del pref 5300; ip rule del pref 1000", ""},
		"policy rule to a table that leads nowhere": {"ip rule add to 10.9.0.2 pref 77 lookup 99; ip route add prohibit default table 99", "ip rule del pref 77; ip route flush table 99",
			"tunnel packets to node other end at a blackhole route of table 99 (prohibit default), selected by policy rule \"77: from all to 10.9.0.2/32 lookup 99\": remove it with `ip rule del pref 77`"},
		"policy rule for the tunnels' port":  {"ip rule add ipproto udp dport 4789 pref 77 lookup 99; ip route add prohibit default table 99; ip route add throw 10.9.0.3 table 99", "ip rule del pref 77; ip route flush table 99", ""},
		"policy rule for a protocol of pods": {"ip rule add ipproto tcp pref 77 lookup 99; ip route add default via 10.9.0.9 table 99", "ip rule del pref 77; ip route flush table 99", ""},
		"policy rule with further conditions": {"ip rule add not to 10.7.0.0/24 iif pod pref 77 lookup 99; ip route add default via 10.9.0.9 table 99", "ip rule del pref 77; ip route flush table 99",
			"are diverted by policy rule \"77: from all to 10.7.0.0/24 iif pod lookup 99\", and its further conditions"},
		"policy rule to a table that leads on": {"ip rule add to 10.9.0.2 pref 77 lookup 99; ip route add prohibit default table 99; ip route add 10.9.0.2 dev eth0 table 99", "ip rule del pref 77; ip route flush table 99", ""},
		"policy rule for others":               {"ip rule add to 10.7.0.0/24 pref 77 prohibit", "ip rule del pref 77", ""},
		"a route over a part of another node's pods": {"ip route add 10.1.2.128/25 via 10.9.0.9 proto bird", "ip route del 10.1.2.128/25",
			"route 10.1.2.128/25 dev eth0 via 10.9.0.9 is foreign (protocol 12, bird) and diverts packets to 10.1.2.128: remove it with `ip route del 10.1.2.128/25`"},
		"a route that drops packets to a pod of another node": {"ip route add blackhole 10.1.3.7", "ip route del blackhole 10.1.3.7",
			"route blackhole 10.1.3.7/32 is foreign (protocol 3, boot: made by hand, or by a script) and diverts packets to 10.1.3.7"},
		"a route over a pod": {"ip route replace 10.1.1.2/32 via 10.9.0.9", "ip route replace 10.1.1.2/32 dev pod proto 121",
			"route 10.1.1.2/32 dev eth0 via 10.9.0.9 is foreign (protocol 3, boot: made by hand, or by a script) and diverts packets to 10.1.1.2"},
		"another route to a pod":      {"ip route replace 10.1.1.2/32 dev pod proto static", "ip route replace 10.1.1.2/32 dev pod proto 121", ""},
		"a route that ours go before": {"ip route add 10.1.1.2/32 via 10.9.0.9 metric 77", "ip route del 10.1.1.2/32 metric 77", ""},
		"routes to elsewhere":         {"ip route add 10.7.0.0/16 via 10.9.0.9", "ip route del 10.7.0.0/16", ""},
		"a pod's address":             {"ip addr add 10.1.1.2/32 dev lo", "ip addr del 10.1.1.2/32 dev lo", "pod address 10.1.1.2 is assigned to device lo of this node"},
		"address of a pod elsewhere": {"ip addr add 10.1.3.7/28 dev eth0", "ip addr del 10.1.3.7/28 dev eth0",
			"10.1.3.7 is assigned to device eth0 of this node, so its packets end here: remove it with `ip addr del 10.1.3.7/28 dev eth0`"},
		"ours":                                 {"nft add table inet contiv; nft 'add chain inet contiv f { type filter hook forward priority 0; policy drop; }'", "nft delete table inet contiv", ""},
		"others' chains that nothing jumps to": {"nft add table inet some; nft 'add chain inet some f { type filter hook forward priority 0; }'; nft add chain inet some unused; nft add rule inet some unused drop", "nft delete table inet some", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath("iptables-legacy"); err != nil && strings.Contains(name, "iptables-legacy") {
				t.Skip("needs the program iptables-legacy, of Debian's package iptables")
			}
			inNetNS(t)
			shell(t, `ip link add eth0 type veth peer name far; ip link set far up; ip link set eth0 up; ip addr add 10.9.0.1/24 dev eth0
				ip link add pod type veth peer name podfar; ip link set podfar up; ip link set pod up; ip route add 10.1.1.2/32 dev pod proto 121
				sysctl -q net.ipv4.conf.all.forwarding=1; ip route add 10.1.0.0/16 via 10.9.0.9; ip route add default via 10.9.0.9`)
			n := New(Options{
				Node: "this", HostStack: true, MTU: func() int { return 1450 }, Overhead: func(netip.Addr) int { return 50 },
				OurTable: func(name string) bool { return name == "contiv" }, OurRoute: func(protocol int) bool { return protocol == 121 },
				Warnings: func(context.Context) (warnings []string) {
					if strings.HasSuffix(name, "which the vswitch reports") {
						warnings = append(warnings, "device eth0 went down and took the host's default route along: run `ip route add default dev eth0`")
					}
					return warnings
				},
				Pods: func() ([]Pod, error) {
					return []Pod{{Name: "default/web", Device: "pod", Addresses: []netip.Addr{netip.MustParseAddr("10.1.1.2")}, MTU: 1450}}, nil
				},
				Nodes: func() (list []Node) {
					for i, name := range []string{"this", "other", "third"} {
						list = append(list, Node{Name: name, Addresses: []netip.Addr{netip.MustParseAddr(fmt.Sprintf("10.9.0.%d", i+1))},
							Pods: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.1.%d.0/24", i+1))}})
					}
					return list
				},
			}).Network()
			look := func() string {
				n.rules, n.routesAgain = nil, time.Time{}
				return strings.Join(n.Problems(t.Context()), "\n")
			}
			if text := look(); text != "" {
				t.Fatalf("at first: %s", text)
			}
			shell(t, c.fault)
			if text := look(); !strings.Contains(text, c.want) || c.want == "" && text != "" {
				t.Errorf("got %q, want %q", text, c.want)
			}
			shell(t, c.undo)
			if text := look(); text != "" {
				t.Errorf("mended: %s", text)
			}
		})
	}
}

// The removal command matches the rule's IP version.
func TestPolicyRulesOfIPv6(t *testing.T) {
	inNetNS(t)
	shell(t, "ip link set lo up; ip -6 route add fd00::/64 dev lo; ip -6 route add prohibit fd00:1::/64 table 99; "+
		"ip -6 rule add to fd00::2 pref 77 blackhole; ip -6 rule add to fd00:1::2 pref 78 lookup 99")
	rules, err := (&Explainer{o: Options{OurRoute: func(int) bool { return false }}}).policyRules()
	if err != nil {
		t.Fatal(err)
	}
	for to, want := range map[string]string{
		"fd00::1":   "",
		"fd00::2":   "are diverted by policy rule \"77: from all to fd00::2/128 blackhole\": remove it with `ip -6 rule del pref 77`",
		"fd00:1::2": "(prohibit fd00:1::/64), selected by policy rule \"78: from all to fd00:1::2/128 lookup 99\": remove it with `ip -6 rule del pref 78`",
	} {
		if got := divert(rules, foreign.Packet{Dst: netip.MustParseAddr(to)}, false); !strings.HasSuffix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", to, got, want)
		}
	}
}

// A separate vswitch has the devices to other nodes; the kernel's filters see packets between the
// host and its pods.
func TestNetworkOfAVSwitchOfItsOwn(t *testing.T) {
	good := Device{Name: "eth0", Address: netip.MustParseAddr("10.9.0.1"), Up: true, Carrier: true, MTU: 1500}
	for name, c := range map[string]struct {
		device            func(*Device)
		fault, undo, want string
	}{
		"nothing":       {func(*Device) {}, "true", "true", ""},
		"down":          {func(d *Device) { d.Up = false }, "true", "true", "its device eth0 is down"},
		"no carrier":    {func(d *Device) { d.Carrier = false }, "true", "true", "its device eth0 has no carrier"},
		"MTU":           {func(d *Device) { d.MTU = 1400 }, "true", "true", "device eth0 has MTU 1400, but packets of pods (1450 bytes, such as default/web) need 1500 on it"},
		"default route": {func(*Device) {}, "ip route del default", "ip route add default via 172.30.1.1", "the node lost its IPv4 default route by vpp1"},
		"to pods": {func(*Device) {}, "nft add table inet some; nft 'add chain inet some o { type filter hook output priority 0; }'; nft add rule inet some o oifname vpp1 ip daddr 10.1.0.0/16 drop", "nft delete table inet some",
			"packets of the host to pods are dropped: a rule of chain o in table inet some drops the packet: for example, the kubelet's probes"},
		"from pods": {func(*Device) {}, "nft add table inet some; nft 'add chain inet some i { type filter hook input priority 0; policy drop; }'; nft add rule inet some i ct state established accept", "nft delete table inet some",
			"packets of pods to the host are dropped: the policy of chain i"},
		"forwarded, which is no concern":                 {func(*Device) {}, "nft add table inet some; nft 'add chain inet some f { type filter hook forward priority 0; policy drop; }'", "nft delete table inet some", ""},
		"the tunnels' packets, of which VPP gets copies": {func(*Device) {}, "nft add table inet some; nft 'add chain inet some i { type filter hook input priority 0; }'; nft add rule inet some i udp dport 4789 drop", "nft delete table inet some", ""},
	} {
		t.Run(name, func(t *testing.T) {
			inNetNS(t)
			shell(t, `ip link add vpp1 type veth peer name far; ip link set far up; ip link set vpp1 up; ip addr add 172.30.1.2/24 dev vpp1
				ip route add 10.1.0.0/16 via 172.30.1.1; ip route add default via 172.30.1.1`)
			device := good
			n := New(Options{
				Node: "this", MTU: func() int { return 1450 }, Overhead: func(netip.Addr) int { return 50 },
				OurTable: func(name string) bool { return name == "contiv" },
				Pods: func() ([]Pod, error) {
					return []Pod{{Name: "default/web", Addresses: []netip.Addr{netip.MustParseAddr("10.1.1.2")}, MTU: 1450}}, nil
				},
				Nodes:    func() []Node { return nil },
				Warnings: func(context.Context) []string { return nil },
				Devices:  func(context.Context) ([]Device, error) { return []Device{device}, nil },
			}).Network()
			look := func() string {
				n.rules, n.routesAgain = nil, time.Time{}
				return strings.Join(n.Problems(t.Context()), "\n")
			}
			if text := look(); text != "" {
				t.Fatalf("at first: %s", text)
			}
			c.device(&device)
			shell(t, c.fault)
			if text := look(); !strings.Contains(text, c.want) || c.want == "" && text != "" {
				t.Errorf("got %q, want %q", text, c.want)
			}
			device = good
			shell(t, c.undo)
			if text := look(); text != "" {
				t.Errorf("mended: %s", text)
			}
		})
	}
}
