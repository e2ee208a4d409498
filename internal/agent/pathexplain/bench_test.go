package pathexplain

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// BenchmarkNetwork checks the network of a node among 200, with 5,000 foreign rules at each of two
// hooks: with cached rules, as most checks do, and reading them.
func BenchmarkNetwork(b *testing.B) {
	for name, read := range map[string]bool{"read recently": false, "reading": true} {
		b.Run(name, func(b *testing.B) { lookAtNetwork(b, read) })
	}
}

func lookAtNetwork(b *testing.B, read bool) {
	inNetNS(b)
	shell(b, `ip link add eth0 type veth peer name far; ip link set far up; ip link set eth0 up; ip addr add 10.9.0.1/16 dev eth0
		ip link add pod type veth peer name podfar; ip link set podfar up; ip link set pod up; ip route add 10.1.0.2/32 dev pod
		ip route add 10.1.0.0/16 via 10.9.9.9; ip route add default via 10.9.9.9`)
	var rules strings.Builder
	for _, chain := range []string{"forward", "input"} {
		fmt.Fprintf(&rules, "table inet some {\nchain %s {\ntype filter hook %s priority 0\n", chain, chain)
		for i := range 5000 {
			fmt.Fprintf(&rules, "ip saddr 172.16.%d.%d tcp dport 80 drop\n", i/250, i%250)
		}
		rules.WriteString("}\n}\n")
	}
	file := filepath.Join(b.TempDir(), "rules")
	if err := os.WriteFile(file, []byte(rules.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	shell(b, "nft -f "+file)
	var nodes []Node
	for i := range 200 {
		nodes = append(nodes, Node{Name: fmt.Sprint("node", i), Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 9, 0, byte(i + 1)})},
			Pods: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(i), 0}), 24)}})
	}
	n := New(Options{
		Node: "node0", HostStack: true, MTU: func() int { return 1450 }, Overhead: func(netip.Addr) int { return 50 },
		OurTable: func(string) bool { return false }, OurRoute: func(int) bool { return false },
		Warnings: func(context.Context) []string { return nil }, Nodes: func() []Node { return nodes },
		Pods: func() ([]Pod, error) {
			return []Pod{{Name: "default/web", Device: "pod", Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.2")}, MTU: 1450}}, nil
		},
	}).Network()
	_ = n.Problems(b.Context())
	for b.Loop() {
		if read {
			n.rules = nil
		}
		if problems := n.Problems(b.Context()); len(problems) > 0 {
			b.Fatal(problems)
		}
	}
}
