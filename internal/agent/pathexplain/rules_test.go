package pathexplain

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/netlink/nft/foreign"
	"golang.org/x/sys/unix"
)

// A VPN may route packets to its own addresses, but not packets between pods.
func TestTablesOfVPNs(t *testing.T) {
	inNetNS(t)
	shell(t, `ip link set lo up; ip link add eth0 type veth peer name far; ip link set far up; ip link set eth0 up; ip addr add 10.9.0.1/24 dev eth0
		ip rule add pref 5270 lookup 52; ip route add 100.64.0.0/10 dev eth0 table 52; ip route add 10.1.2.0/24 dev eth0 table 52`)
	e := New(Options{OurRoute: func(int) bool { return false }})
	rules, err := e.policyRules()
	if err != nil || !slices.ContainsFunc(rules, func(r policyRule) bool { return r.foreign && r.Table == 52 }) {
		t.Fatal(rules, err)
	}
	own := netip.MustParseAddr("10.9.0.1")
	node := end{addr: own, here: true, node: &Node{Addresses: []netip.Addr{own}}}
	for to, there := range map[string]end{
		"100.100.1.1": {}, // outside the cluster
		"100.100.1.2": {node: &Node{Addresses: []netip.Addr{netip.MustParseAddr("100.100.1.2")}}},
	} {
		there.addr = netip.MustParseAddr(to)
		if text := divert(rules, foreign.Packet{Src: own, Dst: there.addr}, anyTable(node, there)); text != "" {
			t.Errorf("%s: %s", to, text)
		}
	}
	pod := end{addr: netip.MustParseAddr("10.1.2.2"), node: &Node{}}
	if text := divert(rules, foreign.Packet{Src: own, Dst: pod.addr}, anyTable(node, pod)); text == "" {
		t.Error("packets to pods are taken away, and that is not said")
	}
	if !anyTable(pod, end{addr: netip.MustParseAddr("100.100.1.1")}) {
		t.Error("the host may route packets of pods to the outside by any table")
	}
}

// The reported rule is the one that decides, not an earlier rule or a later one.
func TestTheFirstPolicyRuleThatDecides(t *testing.T) {
	for name, c := range map[string]struct{ rules, want string }{
		"before main":                  {"ip rule add to 10.1.2.0/24 pref 77 lookup 99; ip route add blackhole default table 99", "77: from all to 10.1.2.0/24 lookup 99"},
		"behind main":                  {"ip rule add to 10.1.2.0/24 pref 40000 lookup 99; ip route add blackhole default table 99", ""},
		"that stops, behind main":      {"ip rule add to 10.1.2.0/24 pref 40000 prohibit", ""},
		"behind main, which lacks it":  {"ip rule add to 10.7.0.0/24 pref 40000 lookup 99; ip route add blackhole default table 99", "40000: from all to 10.7.0.0/24 lookup 99"},
		"behind another":               {"ip rule add pref 77 lookup 98; ip route add prohibit 10.1.2.0/24 table 98; ip rule add pref 78 blackhole", "77: from all lookup 98"},
		"behind one that throws":       {"ip rule add pref 77 lookup 98; ip route add throw 10.1.2.0/24 table 98; ip rule add pref 78 blackhole", "78: from all blackhole"},
		"that is skipped":              {"ip rule add pref 76 goto 32766; ip rule add pref 77 lookup 99; ip route add blackhole default table 99", ""},
		"that another address matches": {"ip rule add to 10.1.3.0/24 pref 77 blackhole", ""},
	} {
		t.Run(name, func(t *testing.T) {
			inNetNS(t)
			shell(t, "ip link set lo up; ip route add blackhole 10.1.0.0/16; "+c.rules)
			rules, err := New(Options{OurRoute: func(int) bool { return false }}).policyRules()
			if err != nil {
				t.Fatal(err)
			}
			to := "10.1.2.2"
			if strings.Contains(c.rules, "10.7.") {
				to = "10.7.0.2"
			}
			if got := divert(rules, foreign.Packet{Src: netip.MustParseAddr("10.1.1.2"), Dst: netip.MustParseAddr(to)}, false); !strings.Contains(got, c.want) || c.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// If the return path differs, rp_filter drops the packets before any filter sees them.
func TestReversePathFilter(t *testing.T) {
	inNetNS(t)
	shell(t, `ip link set lo up; for d in nic0 nic1; do ip link add $d type veth peer name far$d; ip link set far$d up; ip link set $d up; sysctl -q net.ipv4.conf.$d.rp_filter=1; done
		sysctl -q net.ipv4.conf.all.forwarding=1; ip route add 10.1.1.0/24 dev nic0; ip route add 10.1.2.0/24 dev nic1`)
	f := flow{Packet: foreign.Packet{In: "nic0", Src: netip.MustParseAddr("10.1.1.2"), Dst: netip.MustParseAddr("10.1.2.2")}}
	if text := f.reversed(); text != "" {
		t.Errorf("at first: %s", text)
	}
	shell(t, "ip route replace 10.1.1.0/24 dev nic1")
	if text := f.reversed(); !strings.Contains(text, "on arrival at device nic0, because its rp_filter is 1, and its route back leads to nic1") {
		t.Errorf("got %q", text)
	}
	shell(t, "sysctl -q net.ipv4.conf.nic0.rp_filter=2")
	if text := f.reversed(); text != "" {
		t.Errorf("loose: %s", text)
	}
}

func TestRoomForConnections(t *testing.T) {
	for _, c := range []struct {
		count, most int
		full        bool
	}{{0, 0, false}, {94, 100, false}, {95, 100, true}, {100, 100, true}} {
		if text := conntrackFull(c.count, c.most); (text != "") != c.full {
			t.Errorf("%+v: %q", c, text)
		}
	}
}

// Processes of the node send from the address that the kernel chooses, by its policy rules.
func TestSourceByPolicyRules(t *testing.T) {
	const table = "; ip route add default via 10.9.0.9 src 10.9.0.7 table 99"
	tcp := foreign.Packet{Dst: netip.MustParseAddr("10.1.2.2"), Protocol: unix.IPPROTO_TCP, DstPort: 8080}
	udp := tcp
	udp.Protocol = unix.IPPROTO_UDP
	for name, c := range map[string]struct {
		rules  string
		packet foreign.Packet
		want   string
	}{
		"none":                     {"true", tcp, "10.9.0.1"},
		"to the address":           {"ip rule add to 10.1.2.0/24 pref 77 lookup 99" + table, tcp, "10.9.0.7"},
		"to another address":       {"ip rule add to 10.1.3.0/24 pref 77 lookup 99" + table, tcp, "10.9.0.1"},
		"from an address":          {"ip rule add from 10.9.0.1 pref 77 lookup 99" + table, tcp, "10.9.0.1"}, // chosen before
		"of the node":              {"ip rule add iif lo pref 77 lookup 99" + table, tcp, "10.9.0.7"},
		"of another device":        {"ip rule add iif eth0 pref 77 lookup 99" + table, tcp, "10.9.0.1"},
		"with a mark":              {"ip rule add fwmark 1 pref 77 lookup 99" + table, tcp, "10.9.0.1"},
		"of the protocol":          {"ip rule add ipproto tcp pref 77 lookup 99" + table, tcp, "10.9.0.7"},
		"of the port":              {"ip rule add ipproto tcp dport 8000-8100 pref 77 lookup 99" + table, tcp, "10.9.0.7"},
		"of another port":          {"ip rule add ipproto tcp dport 80 pref 77 lookup 99" + table, tcp, "10.9.0.1"},
		"of another protocol":      {"ip rule add ipproto tcp pref 77 lookup 99" + table, udp, "10.9.0.1"},
		"of an unknown protocol":   {"ip rule add ipproto tcp pref 77 lookup 99" + table, foreign.Packet{Dst: tcp.Dst}, "10.9.0.1"},
		"SCTP, unknown to lookups": {"ip rule add to 10.1.2.2 pref 77 lookup 99" + table, foreign.Packet{Dst: tcp.Dst, Protocol: unix.IPPROTO_SCTP, DstPort: 9}, "10.9.0.7"},
		"no route":                 {"ip rule add to 10.1.2.2 pref 77 unreachable", tcp, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inNetNS(t)
			shell(t, `ip link set lo up; ip link add eth0 type veth peer name far; ip link set far up; ip link set eth0 up
				ip addr add 10.9.0.1/24 dev eth0; ip addr add 10.9.0.7/24 dev eth0; ip route add default via 10.9.0.9; `+c.rules)
			_, got, err := routeOf(c.packet)
			if want, _ := netip.ParseAddr(c.want); got != want || (err != nil) != (c.want == "") {
				t.Errorf("got %v, %v, want %q", got, err, c.want)
			}
		})
	}
}

// A rule for marked packets is named if a packet filter may mark them.
func TestPolicyRulesForMarks(t *testing.T) {
	inNetNS(t)
	shell(t, `ip link set lo up; ip link add eth0 type veth peer name far; ip link set far up; ip link set eth0 up
		ip rule add fwmark 1 to 10.1.2.0/24 pref 77 lookup 99; ip rule add fwmark 1 to 10.1.3.0/24 pref 78 blackhole
		nft 'table ip some { chain p { type filter hook prerouting priority -150; tcp dport 80 meta mark set 1; }; }' `)
	e := New(Options{OurRoute: func(int) bool { return false }, OurTable: func(string) bool { return false }})
	diversions, err := e.policyRules()
	if err != nil {
		t.Fatal(err)
	}
	rules, err := e.foreign()
	if err != nil {
		t.Fatal(err)
	}
	p := foreign.Packet{In: "eth0", Src: netip.MustParseAddr("10.1.1.2"), Dst: netip.MustParseAddr("10.1.2.2"), Protocol: unix.IPPROTO_TCP, DstPort: 80}
	texts := divertIfMarked(diversions, p)
	if !rules.MayMark(p) || len(texts) != 1 || !strings.Contains(texts[0], `policy rule "77: from all to 10.1.2.0/24 fwmark 0x1/0xffffffff lookup 99"`) {
		t.Errorf("%v, %q", rules.MayMark(p), texts)
	}
	p.DstPort = 81
	if rules.MayMark(p) {
		t.Error("another port is marked")
	}
}
