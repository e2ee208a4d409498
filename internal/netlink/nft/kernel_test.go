package nft

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/netlink/namespace"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

type site struct {
	*Conn
	name    string
	ns      *namespace.Namespace
	library *nftables.Conn // of benchmarks
}

var sites int

func newSite(t testing.TB) *site {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making network namespaces takes root")
	}
	sites++
	s := &site{name: fmt.Sprintf("nft%d-%d", os.Getpid(), sites)}
	if out, err := exec.Command("ip", "netns", "add", s.name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { exec.Command("ip", "netns", "del", s.name).Run() })
	ns, err := namespace.Open("/var/run/netns/" + s.name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ns.Close)
	s.ns = ns
	if s.Conn, err = Open(ns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Release)
	return s
}

func (s *site) nft(t testing.TB, input string, args ...string) string {
	t.Helper()
	cmd := exec.Command("ip", append([]string{"netns", "exec", s.name, "nft"}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("nft %s: %v: %s\n%s", strings.Join(args, " "), err, out, input)
	}
	return string(out)
}

// rulesByFamily are rules as written by subsystems.
var rulesByFamily = map[string][]string{
	"inet": {
		"ct state established ct mark & 0x00ffff00 == 0x00000100 accept",
		"meta l4proto { icmp, icmpv6 } ct state related accept",
		"ct state invalid,untracked goto other",
		"ct original ip saddr . ct reply ip saddr @self4 goto other",
		"ct original ip6 saddr vmap @out6",
		"ct mark set ct mark & 0xff0000ff | 0x00000100 accept",
		"ct mark set ct mark & 0xfbffffff", "ct mark set ct mark | 0x4000000",
		"ip saddr @subjects4 drop", "ip6 daddr @subjects6 drop", "counter drop",
		"ct original ip saddr { 10.0.0.0/8, 192.168.1.1/32 } accept", "ct reply ip6 saddr { fd00::/8, fe80::1 } jump other",
		"ct original ip saddr { 0.0.0.0/1, 200.0.0.1 } accept", "ct original ip saddr { 192.0.0.0/2, 10.1.1.1 } accept",
		"meta nfproto ipv4 ct direction original meta l4proto tcp th dport { 80, 443-445, 446, 65000-65535 } goto other",
		"ct reply ip saddr @subjects4 meta l4proto tcp ct reply proto-src 80 goto other",
		"meta l4proto udp ct reply proto-src 443-445 goto other",
		"ct direction reply ct reply ip saddr . meta l4proto . th sport @e4 goto other",
		"ct direction original ct original ip saddr . meta l4proto . th dport @e4 goto other",
		"meta l4proto { tcp, udp, sctp } accept",
		"oif 0 ct direction original ct mark & 0x4000000 != 0 accept", "oif != 0 jump other",
		"icmpv6 type 133-136 ip6 hoplimit 255 accept",
		"ct state established,related ct direction reply ct mark & 0x4000000 != 0 accept",
		"ip saddr . ip daddr . meta l4proto . th sport . th dport vmap { 10.0.0.0/8 . 0.0.0.0/0 . 6 . 0-65535 . 80-81 : drop, 11.0.0.0/8 . 0.0.0.0/0 . 0-255 . 0-65535 . 82 : goto other }",
		"ip6 saddr . ip6 daddr . icmpv6 type . icmpv6 code vmap { fd00::/8 . ::/0 . 1 . 0-255 : drop, fd00::/8 . ::/0 . 2-4 . 0-255 : accept }",
		"ip saddr . ip daddr . meta l4proto vmap { 10.0.0.0/8 . 1.2.3.4/32 . 6 : drop, 10.0.0.0/9 . 4.3.2.0/24 . 17 : accept }",
		"meta protocol ip ether saddr 02:00:00:00:00:01 ip saddr 10.0.0.0/9 meta l4proto 6-17 th sport 80-90 drop",
		"meta protocol ip6 ether saddr & ff:ff:ff:00:00:00 == 02:00:00:00:00:00 ip6 saddr fd00::/7 drop",
		"meta l4proto 6 tcp flags & 18 == 2 drop", "icmp type 3 icmp code 0-3 drop",
		"iifname vmap @ports", `oifname "eth0" accept`, "fib saddr type local return",
	},
	"bridge": {
		"ip frag-off & 0x1fff != 0 accept", "frag frag-off != 0 accept",
		"tcp flags & (fin | rst) != 0 iif . ip daddr . ip saddr . meta l4proto . th dport . th sport @sessions4 " +
			"update @sessions4 { iif . ip daddr . ip saddr . meta l4proto . th dport . th sport timeout 2m } accept",
		"icmp type echo-reply oif . ip daddr . ip saddr . icmp id @echoes4 accept",
		"icmpv6 type echo-request update @echoes6 { iif . ip6 saddr . ip6 daddr . icmpv6 id timeout 30s } accept",
		"meta l4proto { udp, sctp, dccp } update @sessions6 { iif . ip6 saddr . ip6 daddr . meta l4proto . th sport . th dport timeout 2m } accept",
		"tcp flags & (syn | ack) == syn delete @sessions4 { oif . ip saddr . ip daddr . meta l4proto . th sport . th dport }",
		"meta protocol ip goto other", "ip saddr 10.0.0.0/8 drop", "ether saddr 02:00:00:00:00:01 drop",
		"icmpv6 type 133-136 ip6 hoplimit 255 accept",
	},
	"ip": {
		"ip daddr . meta l4proto . th dport @services return", "ip saddr . meta l4proto . th sport @services accept",
		"ip daddr . meta l4proto . th dport @services ip daddr . meta l4proto . th dport . ip saddr != @allowed drop",
		"dnat ip addr . port to ip daddr . meta l4proto . th dport map @backends", "dnat to ip daddr . meta l4proto map @protocols",
		"dnat ip addr . port to ip daddr . meta l4proto . th dport . numgen random mod 3 map @balanced",
		"meta l4proto tcp snat to ct original ip daddr . meta l4proto . ct original proto-dst map @sources",
		"meta l4proto udp ct original ip daddr . meta l4proto . ct original proto-dst . ip saddr . ip daddr @selves goto other",
		"snat to 10.1.1.1", "snat to 10.1.1.1-10.1.1.5 persistent", "jhash ip saddr mod 3 seed 0x636f6e74 1 snat to 10.1.1.1",
		"masquerade", "notrack", "reject", "meta l4proto tcp reject with tcp reset", "ct status dnat jump other", "ct state new ct status & dnat == 0 drop",
		"ct mark & 0xf0000000 != 0 ct status assured goto other", "ct mark & 0xf0000000 != 0 meta l4proto udp ct status seen-reply goto other",
		"fib daddr type != local drop", "iif 0 meta oiftype != loopback fib saddr type local masquerade", "meta mark 0x7a000001 accept",
		`meta iifgroup 121 meta iifkind "bridge" notrack`, "meta oifgroup != 121 goto other",
	},
	"ip6": {
		"fib saddr type local return", `oifname "eth0" snat to fd16::1`, "reject",
		"dnat ip6 addr . port to ip6 daddr . meta l4proto . th dport map @backends",
		"meta l4proto sctp snat to ct original ip6 daddr . meta l4proto . ct original proto-dst . ip6 saddr . ip6 daddr map @selves",
	},
}

var numbers = map[string]byte{"inet": unix.NFPROTO_INET, "bridge": unix.NFPROTO_BRIDGE, "ip": unix.NFPROTO_IPV4, "ip6": unix.NFPROTO_IPV6}

// nft prints the same for our rules and its own rules of the same text.
func TestRulesEqualThoseOfNft(t *testing.T) {
	for family, rules := range rulesByFamily {
		t.Run(family, func(t *testing.T) {
			s := newSite(t)
			s.addBase(t, family, "ours")
			theirs := baseText[family]
			b := &Batch{Table: "ours", Family: numbers[family]}
			var script strings.Builder
			for i, rule := range rules {
				b.AddText("c", fmt.Sprint("rule ", i), rule)
				fmt.Fprintf(&script, "add rule %s theirs c %s comment \"rule %d\"\n", family, rule, i)
			}
			if err := s.Locked(func() error { return s.Commit(b) }); err != nil {
				t.Fatal(err)
			}
			s.nft(t, theirs+script.String(), "-f", "-")
			want := strings.Split(s.nft(t, "", "list", "chain", family, "theirs", "c"), "\n")
			have := strings.Split(s.nft(t, "", "list", "chain", family, "ours", "c"), "\n")
			for i := range max(len(want), len(have)) {
				if i >= len(want) || i >= len(have) {
					t.Fatalf("%d lines, want %d", len(have), len(want))
				}
				if i > 0 && want[i] != have[i] {
					t.Errorf("nft lists\n%s\nwant\n%s", have[i], want[i])
				}
			}
			if ours, theirs := s.nft(t, "", "list", "table", family, "ours"), s.nft(t, "", "list", "table", family, "theirs"); setsIn(ours) != setsIn(theirs) {
				t.Errorf("sets are listed as\n%s\nwant\n%s", setsIn(ours), setsIn(theirs))
			}
			s.nft(t, "", "-j", "list", "table", family, "ours")
			comments, err := s.gen.rules(numbers[family], "ours")
			if err != nil || len(comments["c"]) != len(rules) {
				t.Errorf("%d comments, want %d, error %v", len(comments["c"]), len(rules), err)
			}
		})
	}
}

// setsIn returns the sorted lines of a listing that describe sets and maps, which are in order of
// creation.
func setsIn(listing string) string {
	before, _, _ := strings.Cut(listing, "chain ")
	lines := strings.Split(before, "\n")[1:]
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

var baseText = map[string]string{
	"inet": `table inet theirs {
		set self4 { type ipv4_addr . ipv4_addr; }
		set e4 { type ipv4_addr . inet_proto . inet_service; }
		set subjects4 { type ipv4_addr; }
		set subjects6 { type ipv6_addr; }
		map out6 { type ipv6_addr : verdict; }
		map ports { type ifname : verdict; }
		chain other { }
		chain c { }
	}
	`,
	"bridge": `table bridge theirs {
		set sessions4 { typeof iif . ip saddr . ip daddr . meta l4proto . th sport . th dport; flags dynamic,timeout; size 65536; }
		set sessions6 { typeof iif . ip6 saddr . ip6 daddr . meta l4proto . th sport . th dport; flags dynamic,timeout; size 65536; }
		set echoes4 { typeof iif . ip saddr . ip daddr . icmp id; flags dynamic,timeout; size 65536; }
		set echoes6 { typeof iif . ip6 saddr . ip6 daddr . icmpv6 id; flags dynamic,timeout; size 65536; }
		chain other { }
		chain c { }
	}
	`,
	"ip": `table ip theirs {
		set services { type ipv4_addr . inet_proto . inet_service; }
		set allowed { type ipv4_addr . inet_proto . inet_service . ipv4_addr; }
		set selves { type ipv4_addr . inet_proto . inet_service . ipv4_addr . ipv4_addr; }
		map backends { type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service; }
		map balanced { typeof ip daddr . meta l4proto . th dport . numgen random mod 3 : ip daddr . th dport; }
		map protocols { type ipv4_addr . inet_proto : ipv4_addr; }
		map sources { type ipv4_addr . inet_proto . inet_service : ipv4_addr; }
		chain other { }
		chain c { }
	}
	`,
	"ip6": `table ip6 theirs {
		map backends { type ipv6_addr . inet_proto . inet_service : ipv6_addr . inet_service; }
		map selves { type ipv6_addr . inet_proto . inet_service . ipv6_addr . ipv6_addr : ipv6_addr; }
		chain other { }
		chain c { }
	}
	`,
}

func setsOfNAT(family string) []*nftables.Set {
	addr := map[string]nftables.SetDatatype{"ip": nftables.TypeIPAddr, "ip6": nftables.TypeIP6Addr}[family]
	concat, proto, port := nftables.MustConcatSetType, nftables.TypeInetProto, nftables.TypeInetService
	backends := &nftables.Set{Name: "backends", KeyType: concat(addr, proto, port), IsMap: true, DataType: concat(addr, port)}
	selves := &nftables.Set{Name: "selves", KeyType: concat(addr, proto, port, addr, addr)}
	if family == "ip6" {
		selves.IsMap, selves.DataType = true, addr
		return []*nftables.Set{backends, selves}
	}
	return []*nftables.Set{
		backends, selves,
		{Name: "services", KeyType: concat(addr, proto, port)},
		{Name: "allowed", KeyType: concat(addr, proto, port, addr)},
		{Name: "protocols", KeyType: concat(addr, proto), IsMap: true, DataType: addr},
		{Name: "sources", KeyType: concat(addr, proto, port), IsMap: true, DataType: addr},
	}
}

func (s *site) addBase(t testing.TB, family, table string) {
	t.Helper()
	b := &Batch{Table: table, Family: numbers[family]}
	b.AddTable()
	switch family {
	case "inet":
		b.AddSet(&nftables.Set{Name: "self4", KeyType: nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeIPAddr)})
		b.AddSet(&nftables.Set{Name: "e4", KeyType: nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetProto, nftables.TypeInetService)})
		b.AddSet(&nftables.Set{Name: "subjects4", KeyType: nftables.TypeIPAddr})
		b.AddSet(&nftables.Set{Name: "subjects6", KeyType: nftables.TypeIP6Addr})
		b.AddSet(&nftables.Set{Name: "out6", KeyType: nftables.TypeIP6Addr, IsMap: true, DataType: nftables.TypeVerdict})
		b.AddSet(&nftables.Set{Name: "ports", KeyType: nftables.TypeIFName, IsMap: true, DataType: nftables.TypeVerdict})
	case "bridge":
		for name, key := range map[string]string{
			"sessions4": "iif . ip saddr . ip daddr . meta l4proto . th sport . th dport", "echoes4": "iif . ip saddr . ip daddr . icmp id",
			"sessions6": "iif . ip6 saddr . ip6 daddr . meta l4proto . th sport . th dport", "echoes6": "iif . ip6 saddr . ip6 daddr . icmpv6 id",
		} {
			b.AddTypeof(name, key, 65536)
		}
	case "ip", "ip6":
		for _, set := range setsOfNAT(family) {
			b.AddSet(set)
		}
	}
	if family == "ip" {
		concat := nftables.MustConcatSetType
		b.AddTypeofMap(&nftables.Set{
			Name: "balanced", KeyType: concat(nftables.TypeIPAddr, nftables.TypeInetProto, nftables.TypeInetService, nftables.TypeMark),
			IsMap: true, DataType: concat(nftables.TypeIPAddr, nftables.TypeInetService),
		}, "ip daddr . meta l4proto . th dport . numgen random mod 3", "ip daddr . th dport")
	}
	b.AddChain(&nftables.Chain{Name: "other"})
	b.AddChain(&nftables.Chain{Name: "c"})
	if err := s.Locked(func() error { return s.Commit(b) }); err != nil {
		t.Fatal(err)
	}
}

func TestTableIsReadBack(t *testing.T) {
	s := newSite(t)
	if table, _, err := s.ReadTable(unix.NFPROTO_INET, "t"); table != nil || err != nil {
		t.Fatalf("read %v, %v, of a table that does not exist", table, err)
	}
	s.addBase(t, "inet", "t")
	elements := []Element{
		{Set: "ports", Key: DeviceKey("eth0"), Verdict: "goto other", Comment: "first"},
		{Set: "ports", Key: DeviceKey("eth1"), Verdict: "drop"},
	}
	b := &Batch{Table: "t", Family: unix.NFPROTO_INET}
	b.AddElements(elements)
	b.AddText("c", "a comment", "iifname vmap @ports")
	must(t, s.Locked(func() error { return s.Commit(b) }))
	table, generation, err := s.ReadTable(unix.NFPROTO_INET, "t")
	if err != nil || generation == 0 {
		t.Fatalf("generation %d, error %v", generation, err)
	}
	if got := table.Sets["ports"].Elements; !slices.Equal(got, elements) {
		t.Errorf("elements %+v, want %+v", got, elements)
	}
	if got := table.Chains["c"].Rules; !slices.Equal(got, []string{"a comment"}) {
		t.Errorf("comments %q", got)
	}
	if len(table.Sets) != 6 {
		t.Errorf("%d sets, want 6: %v", len(table.Sets), table.Sets)
	}
}

// A table counts as unchanged while we change other tables, but not after a change of it.
func TestUnchanged(t *testing.T) {
	s := newSite(t)
	change := func(table string) {
		b := &Batch{Table: table, Family: unix.NFPROTO_INET}
		b.AddTable()
		b.AddChain(&nftables.Chain{Name: "c"})
		must(t, s.Locked(func() error { return s.Commit(b) }))
	}
	change("a")
	since, _ := s.gen.current()
	is := func(what string, want bool) {
		t.Helper()
		now, ok := s.Unchanged("inet a", since)
		if ok != want {
			t.Errorf("%s: unchanged: %v, want %v", what, ok, want)
		}
		since = now
	}
	is("nothing happened", true)
	change("b")
	change("b")
	is("another table was changed", true)
	change("a")
	is("it was changed", false)
	is("nothing happened since", true)
	s.nft(t, "", "add", "table", "ip", "foreign")
	is("another process made a change", false)
	change("b")
	is("another table was changed after that", true)
	if _, ok := s.Unchanged("inet a", 0); ok {
		t.Error("unchanged since it is not known when")
	}
}

// A transaction of two tables is all or nothing.
func TestTransactionsAreAtomic(t *testing.T) {
	s := newSite(t)
	s.addBase(t, "inet", "t")
	good, bad := &Batch{Table: "t", Family: unix.NFPROTO_INET}, &Batch{Table: "missing", Family: unix.NFPROTO_BRIDGE}
	good.AddElements([]Element{{Set: "subjects4", Key: "\x0a\x01\x01\x01"}})
	bad.AddChain(&nftables.Chain{Name: "c"})
	if err := s.Locked(func() error { return s.Commit(good, bad) }); err == nil {
		t.Fatal("a transaction on a missing table succeeded")
	}
	table, _, err := s.ReadTable(unix.NFPROTO_INET, "t")
	must(t, err)
	if len(table.Sets["subjects4"].Elements) != 0 {
		t.Error("half a transaction happened")
	}
	bad.AddText("c", "", "ip saddr nonsense")
	if err := s.Locked(func() error { return s.Commit(good, bad) }); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("error %v of an invalid rule", err)
	}
	must(t, s.Locked(func() error { return s.Commit(good) }))
}

func TestInterruptedDumps(t *testing.T) {
	s := newSite(t)
	s.addBase(t, "inet", "t")
	for broken := 1; ; broken++ {
		requests := 0
		s.InjectFaults(func(call string) error {
			if requests++; requests == broken && call == "dump" {
				return nl.ErrDumpInterrupted
			}
			return nil
		})
		table, _, err := s.ReadTable(unix.NFPROTO_INET, "t")
		if err != nil || table == nil || len(table.Sets) != 6 || len(table.Chains) != 2 {
			t.Fatalf("request %d interrupted: %v, error %v", broken, table, err)
		}
		if requests < broken {
			break
		}
	}
	s.InjectFaults(nil)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
