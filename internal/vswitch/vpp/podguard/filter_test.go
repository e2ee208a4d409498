package podguard

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"

	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest/frames"
)

// maxVectors is the largest number of vectors that a VPP table compares.
const maxVectors = 5

// verdictOf evaluates a frame like VPP; false: no entry matches.
func verdictOf(filter []*table, frame []byte) (verdict, bool) {
	c := chainOther
	switch string(frame[12:14]) {
	case "\x08\x00":
		c = chainIP4
	case "\x86\xdd":
		c = chainIP6
	}
	frame = append(slices.Clone(frame), make([]byte, 2*maxVectors*vector)...)
	for _, t := range filter {
		if t.chain != c {
			continue
		}
		seen := slices.Clone(frame[:t.skip()*vector+len(t.mask())])
		for i := range seen {
			if i < t.skip()*vector {
				seen[i] = 0
				continue
			}
			seen[i] &= t.mask()[i-t.skip()*vector]
		}
		for _, e := range t.entries {
			if bytes.Equal(e.match, seen) {
				return e.verdict, true
			}
		}
	}
	return 0, false
}

// Flows are dropped by addresses and ports, and read back.
func TestSilenceTables(t *testing.T) {
	own, gateway := frames.MAC{2, 0xfe, 0, 0, 0, 1}, frames.MAC{2, 0xfe, 0, 0, 0, 2}
	flow := func(from, to string) subsystem.Flow {
		return subsystem.Flow{From: netip.MustParseAddrPort(from), To: netip.MustParseAddrPort(to)}
	}
	flows := []subsystem.Flow{
		flow("10.1.1.2:514", "10.96.0.10:53"), flow("10.1.1.2:515", "10.96.0.10:53"), flow("[fd10:1::2]:514", "[fd96::10]:53"),
		{From: netip.MustParseAddrPort("10.1.1.2:516"), To: netip.MustParseAddrPort("10.96.0.10:53"), TCP: true},
	}
	tables := silenceTables(flows)
	send := func(f subsystem.Flow, protocol byte) []byte {
		ports := []byte{byte(f.From.Port() >> 8), byte(f.From.Port()), byte(f.To.Port() >> 8), byte(f.To.Port()), 0, 8, 0, 0}
		return frames.Packet(own, gateway, f.From.Addr(), f.To.Addr(), protocol, 64, 6, ports, false)
	}
	for _, f := range flows {
		if v, ok := verdictOf(tables, send(f, map[bool]byte{false: protocolUDP, true: protocolTCP}[f.TCP])); !ok || v != silenced {
			t.Errorf("%v: verdict %v %v, want it silenced", f, v, ok)
		}
	}
	for _, f := range []subsystem.Flow{
		flow("10.1.1.2:516", "10.96.0.10:53"), flow("10.1.1.3:514", "10.96.0.10:53"), flow("10.1.1.2:514", "10.96.0.11:53"), flow("10.1.1.2:514", "10.96.0.10:54"),
		flow("[fd10:1::2]:514", "[fd96::11]:53"), flow("[fd10:1::2]:515", "[fd96::10]:53"),
	} {
		if v, ok := verdictOf(tables, send(f, protocolUDP)); ok {
			t.Errorf("%v: verdict %v, want none", f, v)
		}
	}
	if v, ok := verdictOf(tables, send(flows[0], protocolTCP)); ok {
		t.Errorf("%v over TCP: verdict %v, want none", flows[0], v)
	}
	slices.SortFunc(flows, subsystem.Flow.Compare)
	if got := (&port{silence: &port{filter: tables}}).silent(); !slices.Equal(got, flows) {
		t.Errorf("read back %v, want %v", got, flows)
	}
	for _, tb := range tables {
		if n := len(tb.mask()) / vector; n > maxVectors {
			t.Errorf("table of %v compares %d vectors, VPP takes %d", tb.spans, n, maxVectors)
		}
	}
}

func TestFilter(t *testing.T) {
	addr := netip.MustParseAddr
	own, gateway, stranger := frames.MAC{2, 0xfe, 0, 0, 0, 1}, frames.MAC{2, 0xfe, 0, 0, 0, 2}, frames.MAC{2, 0, 0, 0, 0, 0x99}
	everybody, all := frames.MAC{0x33, 0x33, 0, 0, 0, 1}, addr("ff02::1")
	local := vswitch.LinkLocal(own)
	list := filter(own[:], []netip.Addr{addr("10.1.1.2"), addr("fd10:1::2"), local}, ends{peers: []netip.Addr{addr("192.168.16.2")}, segments: []netip.Addr{addr("fd51::1")}})

	ip := func(from frames.MAC, src, dst string, fragment bool) []byte {
		return frames.Datagram(from, gateway, addr(src), addr(dst), "to anybody", fragment)
	}
	udp := func(dst string, port uint16) []byte {
		frame := ip(own, "10.1.1.2", dst, false)
		frame[36], frame[37] = byte(port>>8), byte(port)
		return frame
	}
	discover := func(src netip.Addr, kind byte, target netip.Addr, option byte, value frames.MAC) []byte {
		return frames.Discovery(own, everybody, src, all, kind, target, option, value)
	}
	divided := func(kind byte) []byte {
		frame := make([]byte, 80)
		copy(frame, discover(addr("fd10:1::2"), kind, addr("fd10:1::1"), 0, frames.MAC{})[:54])
		frame[20], frame[54], frame[62] = fragment, icmp6, kind
		return frame
	}
	tagged := ip(own, "10.1.1.2", "10.1.1.3", false)
	copy(tagged[12:], []byte{0x81, 0})
	ping6 := frames.Packet(own, gateway, addr("fd10:1::2"), addr("fd10:1::3"), icmp6, 64, 2, append([]byte{128, 0, 0, 0}, make([]byte, 60)...), false)

	for name, test := range map[string]struct {
		frame []byte
		want  verdict
	}{
		"IPv4":                            {ip(own, "10.1.1.2", "10.1.1.3", false), pass},
		"IPv4, fragment":                  {ip(own, "10.1.1.2", "10.1.1.3", true), pass},
		"IPv4, foreign":                   {ip(own, "10.1.1.3", "10.1.1.3", false), dropIPv4},
		"IPv4, foreign, fragment":         {ip(own, "10.1.1.3", "10.1.1.3", true), dropIPv4},
		"IPv4, none":                      {ip(own, "0.0.0.0", "255.255.255.255", false), dropIPv4},
		"IPv4, foreign MAC":               {ip(stranger, "10.1.1.2", "10.1.1.3", false), dropMAC},
		"VXLAN to a peer":                 {udp("192.168.16.2", portVXLAN), dropVXLAN},
		"VXLAN to somebody else":          {udp("192.168.16.3", portVXLAN), pass},
		"something else to a peer":        {udp("192.168.16.2", 53), pass},
		"IPv6":                            {ip(own, "fd10:1::2", "fd10:1::3", false), pass},
		"IPv6, fragment":                  {ip(own, "fd10:1::2", "fd10:1::3", true), pass},
		"IPv6, link-local":                {ip(own, local.String(), "fd10:1::3", false), pass},
		"IPv6, ping":                      {ping6, pass},
		"IPv6, foreign":                   {ip(own, "fd10:1::3", "fd10:1::3", false), dropIPv6},
		"IPv6, foreign link-local":        {ip(own, "fe80::1", "fd10:1::3", false), dropIPv6},
		"IPv6, none":                      {ip(own, "::", "fd10:1::3", false), dropIPv6},
		"IPv6, foreign MAC":               {ip(stranger, "fd10:1::2", "fd10:1::3", false), dropMAC},
		"ARP":                             {frames.ARP(own, false, own, addr("10.1.1.2"), addr("10.1.1.1")), pass},
		"ARP, answer":                     {frames.ARP(own, true, own, addr("10.1.1.2"), addr("10.1.1.1")), pass},
		"ARP, foreign address":            {frames.ARP(own, false, own, addr("10.1.1.1"), addr("10.1.1.1")), dropARP},
		"ARP, foreign sender":             {frames.ARP(own, false, stranger, addr("10.1.1.2"), addr("10.1.1.1")), dropARP},
		"ARP, foreign MAC":                {frames.ARP(stranger, false, own, addr("10.1.1.2"), addr("10.1.1.1")), dropARP},
		"question":                        {discover(addr("fd10:1::2"), neighborSolicitation, addr("fd10:1::1"), optionSourceLink, own), pass},
		"question without an option":      {discover(addr("fd10:1::2"), neighborSolicitation, addr("fd10:1::1"), 0, frames.MAC{}), pass},
		"question, foreign option":        {discover(addr("fd10:1::2"), neighborSolicitation, addr("fd10:1::1"), optionSourceLink, stranger), dropND},
		"question, foreign":               {discover(addr("fd10:1::3"), neighborSolicitation, addr("fd10:1::1"), optionSourceLink, own), dropIPv6},
		"duplicates of its own":           {discover(addr("::"), neighborSolicitation, addr("fd10:1::2"), 0, frames.MAC{}), pass},
		"duplicates of others":            {discover(addr("::"), neighborSolicitation, addr("fd10:1::1"), 0, frames.MAC{}), dropIPv6},
		"answer":                          {discover(addr("fd10:1::2"), neighborAdvertisement, addr("fd10:1::2"), optionTargetLink, own), pass},
		"answer from the other address":   {discover(local, neighborAdvertisement, addr("fd10:1::2"), optionTargetLink, own), pass},
		"answer without an option":        {discover(addr("fd10:1::2"), neighborAdvertisement, addr("fd10:1::2"), 0, frames.MAC{}), pass},
		"answer for others":               {discover(addr("fd10:1::2"), neighborAdvertisement, addr("fd10:1::1"), optionTargetLink, own), dropND},
		"answer, foreign option":          {discover(addr("fd10:1::2"), neighborAdvertisement, addr("fd10:1::2"), optionTargetLink, stranger), dropND},
		"router":                          {discover(local, frames.RouterAdvertisement, local, 0, frames.MAC{}), dropND},
		"redirect":                        {discover(local, redirect, addr("fd10:1::3"), 0, frames.MAC{}), dropND},
		"answer for others, in fragments": {divided(neighborAdvertisement), dropND},
		"ping in fragments":               {divided(128), pass},
	} {
		if got, ok := verdictOf(list, test.frame); !ok || got != test.want {
			t.Errorf("%s: verdict %v %v, want %v", name, got, ok, test.want)
		}
	}
	if v, ok := verdictOf(list, tagged); ok {
		t.Errorf("a frame with a VLAN tag has verdict %v, want none", v)
	}
	for _, tb := range list {
		if n := len(tb.mask()) / vector; n < 1 || n > maxVectors || len(tb.mask())%vector != 0 {
			t.Errorf("table of %v compares %d bytes, VPP takes 16 to %d", tb.spans, len(tb.mask()), maxVectors*vector)
		}
	}
}

// An ICMP error passes only if it quotes a packet to an address of the pod, with a sane path MTU, and
// not behind options or extension headers.
func TestFilterOfErrors(t *testing.T) {
	addr := netip.MustParseAddr
	own, gateway := frames.MAC{2, 0xfe, 0, 0, 0, 1}, frames.MAC{2, 0xfe, 0, 0, 0, 2}
	addrs := []netip.Addr{vswitch.LinkLocal(own), addr("10.1.1.2"), addr("fd10:1::2")}
	list := filter(own[:], addrs, ends{segments: []netip.Addr{addr("fd51::1")}})
	quotes := quoteTables(addrs)
	// judge evaluates both classifiers.
	judge := func(frame []byte) verdict {
		v, ok := verdictOf(list, frame)
		if !ok {
			t.Fatal("no entry matches")
		}
		if v == pass {
			if second, ok := verdictOf(quotes, frame); ok && second == dropICMP {
				return dropICMP
			}
		}
		return v
	}
	type kind struct {
		name       string
		kind, code byte
		info       uint32
		received   bool // passes about packets that the pod received
	}
	for _, ipv6 := range []bool{false, true} {
		me, near, far := addr("10.1.1.2"), addr("10.1.1.3"), addr("10.1.2.2")
		dropped := dropICMP
		kinds := []kind{
			{"fragmentation needed", 3, 4, 1300, true}, {"fragmentation needed, least", 3, 4, 576, true}, {"fragmentation needed, 575", 3, 4, 575, false},
			{"fragmentation needed, 511", 3, 4, 511, false}, {"fragmentation needed, 0", 3, 4, 0, false}, {"port unreachable", 3, 3, 0, true},
			{"redirect", 5, 1, 0x0a010102, false}, {"time exceeded", 11, 0, 0, true}, {"parameter problem", 12, 0, 0, true}, {"source quench", 4, 0, 0, true},
		}
		if ipv6 {
			me, near, far = addr("fd10:1::2"), addr("fd10:1::3"), addr("fd10:2::2")
			dropped = dropICMP
			kinds = []kind{
				{"packet too big", 2, 0, 1300, true}, {"packet too big, least", 2, 0, 1280, true}, {"packet too big, 1279", 2, 0, 1279, false},
				{"packet too big, 0", 2, 0, 0, false}, {"packet too big, more", 2, 0, 70000, true}, {"port unreachable", 1, 4, 0, true},
				{"time exceeded", 3, 0, 0, true}, {"parameter problem", 4, 0, 0, true}, {"unknown error", 100, 0, 0, true},
			}
		}
		quote := func(src, dst netip.Addr) []byte { return frames.Datagram(own, gateway, src, dst, "quoted", false) }
		for _, k := range kinds {
			about := func(src, dst netip.Addr) []byte {
				return frames.ICMPError(own, gateway, me, k.kind, k.code, k.info, quote(src, dst))
			}
			switch got := judge(about(near, me)); {
			case k.received && got != pass:
				t.Errorf("%s about a packet to the pod: verdict %v, want it passed", k.name, got)
			case !k.received && got != dropICMP:
				t.Errorf("%s about a packet to the pod: verdict %v, want it dropped", k.name, got)
			}
			for _, others := range [][2]netip.Addr{{near, far}, {near, near}, {me, near}} {
				if got := judge(about(others[0], others[1])); got != dropped && (k.received || got != dropICMP) {
					t.Errorf("%s about a packet from %v to %v: verdict %v, want it dropped", k.name, others[0], others[1], got)
				}
			}
			foreign := frames.ICMPError(own, gateway, near, k.kind, k.code, k.info, quote(far, near))
			if got := judge(foreign); got != map[bool]verdict{false: dropIPv4, true: dropIPv6}[ipv6] {
				t.Errorf("%s with a foreign source: verdict %v", k.name, got)
			}
			hidden := [][]byte{{destinationOptions}}
			if ipv6 {
				hidden = append(hidden, []byte{hopByHop}, []byte{routingHeader}, []byte{destinationOptions, destinationOptions}, []byte{fragment},
					[]byte{fragment, destinationOptions}, []byte{destinationOptions, fragment}, []byte{fragment, fragment}, []byte{hopByHop, routingHeader})
			}
			for _, headers := range hidden {
				if got := judge(frames.WithHeaders(about(near, far), headers...)); got != dropICMP {
					t.Errorf("%s behind %v: verdict %v, want it dropped", k.name, headers, got)
				}
			}
			if !ipv6 {
				divided := about(near, me)
				divided[20] |= 0x20
				if got := judge(divided); got != dropICMP {
					t.Errorf("%s in fragments: verdict %v, want it dropped", k.name, got)
				}
				divided[20], divided[21] = 0x20, 3 // not the first fragment, whose bytes are data
				if got := judge(divided); got != pass {
					t.Errorf("a later fragment: verdict %v, want it passed", got)
				}
			}
		}
	}
	member := frames.WithHeaders(frames.ICMP(own, gateway, vswitch.LinkLocal(own), addr("ff02::16"), []byte{groupReport2, 0, 0, 0, 0, 0, 0, 0}), hopByHop)
	for name, test := range map[string]struct {
		frame []byte
		want  verdict
	}{
		"ping":               {frames.ICMP(own, gateway, addr("10.1.1.2"), addr("10.1.2.2"), []byte{8, 0, 0, 0, 0, 1, 0, 1}), pass},
		"ping over IPv6":     {frames.ICMP(own, gateway, addr("fd10:1::2"), addr("fd10:2::2"), []byte{128, 0, 0, 0, 0, 1, 0, 1}), pass},
		"membership":         {member, pass},
		"UDP behind options": {frames.WithHeaders(frames.Datagram(own, gateway, addr("fd10:1::2"), addr("fd10:2::2"), "text", false), destinationOptions), pass},
		"packet in a packet to a segment": {
			frames.Packet(own, gateway, addr("fd10:1::2"), addr("fd51::1"), 41, 64, 60, make([]byte, 80), false), dropSegments,
		},
		"packet in a packet to others": {frames.Packet(own, gateway, addr("fd10:1::2"), addr("fd51::2"), 41, 64, 60, make([]byte, 80), false), pass},
	} {
		if got := judge(test.frame); got != test.want {
			t.Errorf("%s: verdict %v, want %v", name, got, test.want)
		}
	}
	for _, tb := range append(list, quotes...) {
		if n := len(tb.mask()) / vector; n < 1 || n > maxVectors {
			t.Errorf("table of %v compares %d vectors, VPP takes %d", tb.spans, n, maxVectors)
		}
	}
}
