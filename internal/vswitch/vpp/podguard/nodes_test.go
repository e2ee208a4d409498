package podguard

import (
	"net/netip"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/vswitchtest/frames"
)

func TestNodeTables(t *testing.T) {
	addr, prefix := netip.MustParseAddr, netip.MustParsePrefix
	from, to := frames.MAC{2, 0, 0, 0, 0, 1}, frames.MAC{2, 0, 0, 0, 0, 2}
	e := tunnelEnds{own: []netip.Addr{addr("192.168.16.1"), addr("fd16::1")}, peers: []netip.Addr{addr("192.168.16.2"), addr("fd16::2")}}
	n := &network{
		inside:  []netip.Prefix{prefix("10.1.1.0/24"), prefix("fd10:1:0:1::/64")},
		overlay: []netip.Prefix{prefix("10.1.0.0/16"), prefix("192.168.30.0/24"), prefix("fd10:1::/48"), prefix("fd30::/112")},
	}
	packet := func(src, dst string, port uint16) []byte {
		return frames.Between(from, to, netip.AddrPortFrom(addr(src), 4001), netip.AddrPortFrom(addr(dst), port), "text")
	}
	for name, test := range map[string]struct {
		frame               []byte
		underlay, elsewhere verdict // pass: no entry, or one that passes
	}{
		"VXLAN of a peer":                       {packet("192.168.16.2", "192.168.16.1", 4789), pass, dropVXLANInterface},
		"VXLAN of others":                       {packet("172.30.1.2", "192.168.16.1", 4789), pass, dropVXLAN},
		"VXLAN to a peer":                       {packet("172.30.1.2", "192.168.16.2", 4789), pass, dropVXLANTranslated},
		"VXLAN to others":                       {packet("172.30.1.2", "192.168.16.9", 4789), pass, pass},
		"another port":                          {packet("192.168.16.2", "192.168.16.1", 4790), pass, pass},
		"VXLAN of a peer, IPv6":                 {packet("fd16::2", "fd16::1", 4789), pass, dropVXLANInterface},
		"VXLAN of others, IPv6":                 {packet("fd17::2", "fd16::1", 4789), pass, dropVXLAN},
		"VXLAN to a peer, IPv6":                 {packet("fd17::2", "fd16::2", 4789), pass, dropVXLANTranslated},
		"VXLAN of a peer, IPv6, in a fragment":  {frames.WithHeaders(packet("fd16::2", "fd16::1", 4789), fragment), pass, dropVXLAN},
		"VXLAN of a peer, IPv6, behind options": {frames.WithHeaders(packet("fd16::2", "fd16::1", 4789), hopByHop), pass, dropVXLAN},
		"a pod of this node":                    {packet("10.1.1.7", "8.8.8.8", 53), dropUplink, dropUplink},
		"a pod of another node":                 {packet("10.1.2.7", "10.1.1.7", 53), dropUplink, dropUplink},
		"a pod of another node to the node":     {packet("10.1.2.7", "192.168.16.1", 53), pass, pass},
		"the end of a tunnel":                   {packet("192.168.30.2", "10.1.1.7", 53), dropUplink, dropUplink},
		"a host outside":                        {packet("8.8.8.8", "10.1.1.7", 53), pass, pass},
		"a pod of this node, IPv6":              {packet("fd10:1:0:1::7", "2001:db8::1", 53), dropUplink, dropUplink},
		"a pod of another node, IPv6":           {packet("fd10:1:0:2::7", "fd10:1:0:1::7", 53), dropUplink, dropUplink},
		"a pod of another node to it, IPv6":     {packet("fd10:1:0:2::7", "fd16::1", 53), pass, pass},
		"a host outside, IPv6":                  {packet("2001:db8::1", "fd10:1:0:1::7", 53), pass, pass},
	} {
		for at, want := range map[bool]verdict{true: test.underlay, false: test.elsewhere} {
			tables := nodeTables(e, at, true, n)
			if got, _ := verdictOf(tables, test.frame); got != want {
				t.Errorf("%s, by the underlay: %v: verdict %v, want %v", name, at, got, want)
			}
			for _, tb := range tables {
				if n := len(tb.mask()) / vector; n < 1 || n > maxVectors || !tb.policed || len(tb.entries) == 0 {
					t.Errorf("table of %v compares %d vectors for %d entries", tb.spans, n, len(tb.entries))
				}
			}
		}
	}
	if tables := nodeTables(tunnelEnds{}, false, false, &network{}); len(tables) > 0 {
		t.Errorf("%d tables without tunnels and uplinks", len(tables))
	}
}
