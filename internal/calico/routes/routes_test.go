package routes

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/calico/datastore"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var me = Host{Name: "w1", Uplinks: []netip.Prefix{netip.MustParsePrefix("192.168.1.1/24"), netip.MustParsePrefix("2001:db8::1/64")}}

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// state parses lines: "block 10.0.0.0/26 w1 [borrowed address=host]…", "affinity 10.0.0.0/26 w1",
// "peer w1 192.0.2.1".
func state(t testing.TB, lines ...string) *datastore.State {
	t.Helper()
	s := datastore.NewState()
	for _, line := range lines {
		words := strings.Fields(line)
		switch words[0] {
		case "block":
			b := datastore.Block{CIDR: prefix(words[1]), Borrowed: map[netip.Addr]string{}}
			if words[2] != "-" {
				b.Host = words[2]
			}
			for _, loan := range words[3:] {
				addr, host, _ := strings.Cut(loan, "=")
				b.Borrowed[netip.MustParseAddr(addr)] = host
			}
			s.SetBlock(line, b, nil)
		case "affinity":
			s.SetAffinity(line, datastore.Affinity{CIDR: prefix(words[1]), Host: words[2], Confirmed: true})
		case "pending":
			s.SetAffinity(line, datastore.Affinity{CIDR: prefix(words[1]), Host: words[2]})
		case "peer":
			s.SetPeer(line, datastore.Peer{Host: words[1], Addr: netip.MustParseAddr(words[2])})
		default:
			t.Fatal(line)
		}
	}
	return s
}

func TestCalculate(t *testing.T) {
	peers := []string{"peer w2 192.168.1.2", "peer w3 192.168.1.3", "peer w2 2001:db8::2"}
	for name, c := range map[string]struct {
		state    []string
		want     string // routes, one per line
		waiting  string
		problems []string
	}{
		"blocks of others": {append(peers, "block 10.0.0.0/26 w2", "block 10.0.0.64/26 w2", "block 10.0.1.0/26 w3", "block fd00::/122 w2"),
			"10.0.0.0/26 via 192.168.1.2 (w2)\n10.0.0.64/26 via 192.168.1.2 (w2)\n10.0.1.0/26 via 192.168.1.3 (w3)\nfd00::/122 via 2001:db8::2 (w2)", "", nil},
		"own blocks": {append(peers, "block 10.0.0.0/26 w1", "block 10.0.0.64/32 w1", "block fd00::/122 w1"),
			"10.0.0.0/26 drop (own block)\nfd00::/122 drop (own block)", "", nil},
		"blocks before peers": {[]string{"block 10.0.0.0/26 w2", "block fd00::/122 w2", "peer w2 192.168.1.2"},
			"10.0.0.0/26 via 192.168.1.2 (w2)", "map[w2:[fd00::/122]]", nil},
		"peers before blocks": {peers, "", "", nil},
		"borrowed addresses": {append(peers, "block 10.0.0.0/26 w2 10.0.0.5=w3 10.0.0.6=w1 10.0.0.7=unknown"),
			"10.0.0.0/26 via 192.168.1.2 (w2)\n10.0.0.5/32 via 192.168.1.3 (w3)", "map[unknown:[10.0.0.7/32]]", nil},
		"borrowed from one's own block": {append(peers, "block fd00::/122 w1 fd00::5=w2"),
			"fd00::/122 drop (own block)\nfd00::5/128 via 2001:db8::2 (w2)", "", nil},
		"released block": {append(peers, "block 10.0.0.0/26 - 10.0.0.5=w3"), "10.0.0.5/32 via 192.168.1.3 (w3)", "", nil},
		"affinity without block": {append(peers, "affinity 10.0.0.0/26 w2", "pending 10.0.0.64/26 w2", "affinity 10.0.0.128/26 w1"),
			"10.0.0.0/26 via 192.168.1.2 (w2)\n10.0.0.128/26 drop (own block)", "", nil},
		"the block knows better than affinities": {append(peers, "affinity 10.0.0.0/26 w2", "block 10.0.0.0/26 w3", "affinity 10.0.0.64/26 w2", "block 10.0.0.64/26 -"),
			"10.0.0.0/26 via 192.168.1.3 (w3)", "", nil},
		"a block of one address that was borrowed": {append(peers, "block 10.0.0.0/32 w2 10.0.0.0=w3"), "10.0.0.0/32 via 192.168.1.3 (w3)", "", nil},
		"two claims": {append(peers, "affinity 10.0.0.0/26 w2", "affinity 10.0.0.0/26 w3"), "", "",
			[]string{`the block 10.0.0.0/26 is claimed by the hosts ["w2" "w3"]: none gets a route until one gives it up`}},
		"twice": {append(peers, "block 10.0.0.0/26 w2", "block 10.0.0.0/26 w3 10.0.0.1=w2"), "10.0.0.0/26 via 192.168.1.2 (w2)", "",
			[]string{"the block 10.0.0.0/26 is there more than once: the first of its keys is used"}},
		"into the uplink's subnet": {append(peers, "block 192.168.1.64/26 w2", "block 192.168.0.0/20 w2", "block 192.168.1.128/26 w1"), "", "",
			[]string{"no route to 192.168.0.0/20 of host w2: it overlaps the uplink's subnet 192.168.1.0/24; give Calico another IP pool",
				"no route to 192.168.1.128/26 of host w1: it overlaps the uplink's subnet 192.168.1.0/24; give Calico another IP pool",
				"no route to 192.168.1.64/26 of host w2: it overlaps the uplink's subnet 192.168.1.0/24; give Calico another IP pool"}},
		"the host itself": {[]string{"peer w2 192.168.1.1", "block 10.0.0.0/26 w2"}, "", "",
			[]string{"no route to 10.0.0.0/26: host w2 says that its address is 192.168.1.1, which is this host's; do two hosts have it?"}},
		"through itself": {[]string{"peer w2 10.0.0.2", "block 10.0.0.0/26 w2", "block 10.0.1.0/26 w2"}, "10.0.1.0/26 via 10.0.0.2 (w2)", "",
			[]string{"no route to 10.0.0.0/26: its next hop 10.0.0.2 is in it"}},
	} {
		got := me.Calculate(state(t, c.state...))
		var lines []string
		for _, dst := range slices.SortedFunc(maps.Keys(got.Table), netip.Prefix.Compare) {
			lines = append(lines, fmt.Sprint(dst, " ", got.Table[dst]))
		}
		if diff := cmp.Diff(c.want, strings.Join(lines, "\n")); diff != "" {
			t.Errorf("%s: routes (-want +got)\n%s", name, diff)
		}
		if waiting := fmt.Sprint(got.Waiting); waiting != c.waiting && (c.waiting != "" || waiting != "map[]") {
			t.Errorf("%s: waiting %s, want %s", name, waiting, c.waiting)
		}
		if diff := cmp.Diff(c.problems, got.Problems); diff != "" {
			t.Errorf("%s: problems (-want +got)\n%s", name, diff)
		}
	}
}

// oracle applies the rules to one address: from the longest prefix to the shortest, each time over
// all data.
func oracle(s *datastore.State, h Host, addr netip.Addr) Route {
	for bits := addr.BitLen(); bits >= 20; bits-- {
		p, _ := addr.Prefix(bits)
		owner := oracleOwner(s, p)
		if owner == "" || slices.ContainsFunc(h.Uplinks, func(u netip.Prefix) bool { return u.Overlaps(p) }) {
			continue
		}
		if owner == h.Name {
			if bits == addr.BitLen() {
				continue
			}
			return Route{Host: owner}
		}
		var lowest netip.Addr
		for _, peer := range s.Peers {
			if peer.Host == owner && peer.Addr.BitLen() == addr.BitLen() && (!lowest.IsValid() || peer.Addr.Compare(lowest) < 0) {
				lowest = peer.Addr
			}
		}
		if lowest.IsValid() && !p.Contains(lowest) && !slices.ContainsFunc(h.Uplinks, func(u netip.Prefix) bool { return u.Addr() == lowest }) {
			return Route{Via: lowest, Host: owner}
		}
	}
	return Route{Host: "nobody"}
}

func oracleOwner(s *datastore.State, p netip.Prefix) string {
	firstOf := func(cidr netip.Prefix) (datastore.Block, bool) {
		for _, key := range slices.Sorted(maps.Keys(s.Blocks)) {
			if s.Blocks[key].CIDR == cidr {
				return s.Blocks[key], true
			}
		}
		return datastore.Block{}, false
	}
	if p.IsSingleIP() {
		for bits := p.Bits(); bits >= 20; bits-- {
			cidr, _ := p.Addr().Prefix(bits)
			if b, ok := firstOf(cidr); ok && b.Borrowed[p.Addr()] != "" {
				return b.Borrowed[p.Addr()]
			}
		}
	}
	if b, ok := firstOf(p); ok {
		return b.Host
	}
	claimants := map[string]bool{}
	for _, a := range s.Affinities {
		if a.CIDR == p && a.Confirmed {
			claimants[a.Host] = true
		}
	}
	if len(claimants) != 1 {
		return ""
	}
	return slices.Collect(maps.Keys(claimants))[0]
}

func TestAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := datastore.NewState()
		host := rapid.SampledFrom([]string{"w1", "w2", "w3", "w4"})
		base := rapid.SampledFrom([]string{"10.0.0.0", "fd00::"})
		cidr := rapid.Custom(func(t *rapid.T) netip.Prefix {
			a := netip.MustParseAddr(base.Draw(t, "base"))
			for range rapid.IntRange(0, 15).Draw(t, "offset") {
				a = a.Next()
			}
			p, _ := a.Prefix(a.BitLen() - rapid.IntRange(0, 4).Draw(t, "host bits"))
			return p
		})
		for i := range rapid.IntRange(0, 6).Draw(t, "blocks") {
			b := datastore.Block{CIDR: cidr.Draw(t, "cidr"), Host: rapid.SampledFrom([]string{"", "w1", "w2", "w3"}).Draw(t, "host"), Borrowed: map[netip.Addr]string{}}
			for a := b.CIDR.Addr(); b.CIDR.Contains(a); a = a.Next() {
				if to := host.Draw(t, "borrower"); rapid.IntRange(0, 3).Draw(t, "lend") == 0 && to != b.Host {
					b.Borrowed[a] = to
				}
			}
			s.SetBlock(fmt.Sprint("block", i), b, nil)
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "affinities") {
			s.SetAffinity(fmt.Sprint("affinity", i), datastore.Affinity{CIDR: cidr.Draw(t, "cidr"), Host: host.Draw(t, "host"), Confirmed: rapid.Bool().Draw(t, "confirmed")})
		}
		for i := range rapid.IntRange(0, 6).Draw(t, "peers") {
			addr := rapid.SampledFrom([]string{"172.16.0.1", "172.16.0.2", "172.16.0.3", "172.16.0.4", "10.0.0.3", "2001:db8::1", "2001:db8::2", "2001:db8::3", "fd00::3"})
			s.SetPeer(fmt.Sprint("peer", i), datastore.Peer{Host: host.Draw(t, "host"), Addr: netip.MustParseAddr(addr.Draw(t, "addr"))})
		}
		h := Host{Name: "w1", Uplinks: []netip.Prefix{prefix("172.16.0.1/24"), prefix("2001:db8::1/64")}}
		if rapid.Bool().Draw(t, "uplink among blocks") {
			h.Uplinks = append(h.Uplinks, prefix("10.0.0.9/30"))
		}
		table := h.Calculate(s).Table
		for _, first := range []string{"10.0.0.0", "fd00::"} {
			a := netip.MustParseAddr(first)
			for range 17 {
				got := Route{Host: "nobody"}
				for bits := a.BitLen(); bits >= 0; bits-- {
					p, _ := a.Prefix(bits)
					if r, ok := table[p]; ok {
						got = r
						break
					}
				}
				if want := oracle(s, h, a); got != want {
					t.Fatalf("%s: got %v to %s, want %v to %s\nin %v", a, got, got.Host, want, want.Host, table)
				}
				a = a.Next()
			}
		}
	})
}

func BenchmarkCalculate10000(b *testing.B) {
	s := datastore.NewState()
	for i := range 10_000 {
		cidr := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 10), byte(i >> 2), byte(i << 6)}), 26)
		s.SetBlock(cidr.String(), datastore.Block{CIDR: cidr, Host: fmt.Sprint("w", i%1000)}, nil)
		s.SetPeer(fmt.Sprint(i%1000), datastore.Peer{Host: fmt.Sprint("w", i%1000), Addr: netip.AddrFrom4([4]byte{172, 16, byte(i % 1000 >> 8), byte(i % 1000)})})
	}
	b.ReportAllocs()
	for b.Loop() {
		if got := (Host{Name: "w1"}).Calculate(s); len(got.Table) != 10_000 {
			b.Fatal(len(got.Table))
		}
	}
}
