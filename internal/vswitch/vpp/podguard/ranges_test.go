package podguard

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest/frames"
	"go.fd.io/govpp/binapi/acl"
)

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

func restrictedAt(addr string, protocol uint8, sources ...string) vswitch.RestrictedFrontend {
	return vswitch.RestrictedFrontend{Addr: netip.MustParseAddrPort(addr), Protocol: protocol, Sources: prefixes(sources...)}
}

// Forbidden packets of a pod are dropped: the first packet of a TCP connection, and all packets of
// other protocols.
func TestRangeTables(t *testing.T) {
	addr := netip.MustParseAddr
	own, gateway := frames.MAC{2, 0xfe, 0, 0, 0, 1}, frames.MAC{2, 0xfe, 0, 0, 0, 2}
	addrs := []netip.Addr{addr("10.1.1.2"), addr("10.1.9.2"), addr("fd10:1::2"), vswitch.LinkLocal(own)}
	tables := rangeTables([]vswitch.RestrictedFrontend{
		restrictedAt("203.0.113.1:80", protocolTCP, "10.1.9.0/24", "192.0.2.0/24"), restrictedAt("203.0.113.1:80", protocolUDP),
		restrictedAt("203.0.113.1:90", protocolSCTP, "192.0.2.0/24"), restrictedAt("203.0.113.2:80", protocolTCP, "10.1.0.0/16"),
		restrictedAt("[fd99::1]:80", protocolTCP, "fd98::/64"), restrictedAt("[fd99::1]:80", protocolUDP, "fd98::/64"),
		restrictedAt("[fd99::2]:80", protocolTCP, "fd10:1::/64"),
	}, addrs)
	const ack = 0x10
	send := func(src, dst string, protocol byte, port uint16, flags byte) []byte {
		transport := make([]byte, 20)
		transport[0], transport[1], transport[2], transport[3], transport[13] = 0x80, 0, byte(port>>8), byte(port), flags
		return frames.Packet(own, gateway, addr(src), addr(dst), protocol, 64, 6, transport, false)
	}
	for name, test := range map[string]struct {
		frame   []byte
		dropped bool
	}{
		"TCP, first packet":                 {send("10.1.1.2", "203.0.113.1", protocolTCP, 80, syn), true},
		"TCP, first packet that says more":  {send("10.1.1.2", "203.0.113.1", protocolTCP, 80, syn|0xc8), true},
		"TCP, established":                  {send("10.1.1.2", "203.0.113.1", protocolTCP, 80, ack), false},
		"TCP, from an address in a range":   {send("10.1.9.2", "203.0.113.1", protocolTCP, 80, syn), false},
		"TCP, another port":                 {send("10.1.1.2", "203.0.113.1", protocolTCP, 81, syn), false},
		"TCP, an address with other ranges": {send("10.1.1.2", "203.0.113.2", protocolTCP, 80, syn), false},
		"UDP":                               {send("10.1.1.2", "203.0.113.1", protocolUDP, 80, 0), true},
		"UDP, that nobody may use":          {send("10.1.9.2", "203.0.113.1", protocolUDP, 80, 0), true},
		"UDP, another port":                 {send("10.1.1.2", "203.0.113.1", protocolUDP, 90, 0), false},
		"SCTP":                              {send("10.1.1.2", "203.0.113.1", protocolSCTP, 90, 0), true},
		"SCTP, another port":                {send("10.1.1.2", "203.0.113.1", protocolSCTP, 80, 0), false},
		"an endpoint":                       {send("10.1.1.2", "10.1.1.3", protocolTCP, 80, syn), false},
		"IPv6, TCP":                         {send("fd10:1::2", "fd99::1", protocolTCP, 80, syn), true},
		"IPv6, TCP from a local address":    {send(vswitch.LinkLocal(own).String(), "fd99::1", protocolTCP, 80, syn), true},
		"IPv6, TCP, established":            {send("fd10:1::2", "fd99::1", protocolTCP, 80, ack), false},
		"IPv6, UDP":                         {send("fd10:1::2", "fd99::1", protocolUDP, 80, 0), true},
		"IPv6, in a range":                  {send("fd10:1::2", "fd99::2", protocolTCP, 80, syn), false},
	} {
		if v, ok := verdictOf(tables, test.frame); ok != test.dropped || ok && v != restricted {
			t.Errorf("%s: verdict %v %v, want it dropped %v", name, v, ok, test.dropped)
		}
	}
	for _, tb := range tables {
		if n := len(tb.mask()) / vector; n > maxVectors {
			t.Errorf("table of %v compares %d vectors, VPP takes %d", tb.spans, n, maxVectors)
		}
	}
	if list := rangeTables([]vswitch.RestrictedFrontend{restrictedAt("203.0.113.1:80", protocolTCP, "0.0.0.0/0")}, addrs); len(list) > 0 {
		t.Errorf("pods that may use all have %d tables", len(list))
	}
}

func TestRangeRecord(t *testing.T) {
	want := []vswitch.RestrictedFrontend{
		restrictedAt("203.0.113.1:80", protocolTCP, "10.1.9.0/24", "192.0.2.0/24"), restrictedAt("203.0.113.1:80", protocolUDP),
		restrictedAt("203.0.113.1:90", protocolSCTP, "192.0.2.0/24"), restrictedAt("[fd99::1]:80", protocolTCP, "fd98::/64"),
	}
	r := readRanges(&acl.ACLDetails{R: (&rangeRecord{frontends: want}).rules()})
	if !slices.EqualFunc(r.frontends, want, vswitch.RestrictedFrontend.Equal) {
		t.Errorf("read back %v, want %v", r.frontends, want)
	}
}
