package path

import (
	"net/netip"
	"testing"
)

// A VPN may route packets to its own addresses, but not those between pods.
func TestTablesOfVPNs(t *testing.T) {
	inNetNS(t)
	shell(t, `ip link set lo up; ip link add eth0 type veth peer name far; ip link set far up; ip link set eth0 up; ip addr add 10.9.0.1/24 dev eth0
		ip rule add pref 5270 lookup 52; ip route add 100.64.0.0/10 dev eth0 table 52; ip route add 10.1.2.0/24 dev eth0 table 52`)
	e := New(Options{OurRoute: func(int) bool { return false }})
	rules, err := e.policyRules()
	if err != nil || len(rules) != 1 {
		t.Fatal(rules, err)
	}
	own := netip.MustParseAddr("10.9.0.1")
	node := end{addr: own, here: true, node: &Node{Addresses: []netip.Addr{own}}}
	for to, there := range map[string]end{
		"100.100.1.1": {}, // outside of the cluster
		"100.100.1.2": {node: &Node{Addresses: []netip.Addr{netip.MustParseAddr("100.100.1.2")}}},
	} {
		there.addr = netip.MustParseAddr(to)
		if text := divert(rules, own, there.addr, "", anyTable(node, there)); text != "" {
			t.Errorf("%s: %s", to, text)
		}
	}
	pod := end{addr: netip.MustParseAddr("10.1.2.2"), node: &Node{}}
	if text := divert(rules, own, pod.addr, "", anyTable(node, pod)); text == "" {
		t.Error("packets to pods are taken away, and that is not said")
	}
	if !anyTable(pod, end{addr: netip.MustParseAddr("100.100.1.1")}) {
		t.Error("the host routes what pods send to outside, whatever table it takes")
	}
}
