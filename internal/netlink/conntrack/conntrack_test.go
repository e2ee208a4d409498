package conntrack

import (
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func TestStale(t *testing.T) {
	at := func(addr string) netip.Addr { return netip.MustParseAddr(addr) }
	service := at("10.96.0.10")
	answerers := func(list ...string) (all []netip.AddrPort) {
		for _, a := range list {
			all = append(all, netip.MustParseAddrPort(a))
		}
		return all
	}
	for name, test := range map[string]struct {
		stale    Stale
		protocol uint8
		to, by   string
		want     bool
	}{
		"who answers":                {Stale{{service, unix.IPPROTO_UDP, 53}: answerers("10.1.1.2:53", "10.1.1.3:53")}, unix.IPPROTO_UDP, "10.96.0.10:53", "10.1.1.3:53", true},
		"another one":                {Stale{{service, unix.IPPROTO_UDP, 53}: answerers("10.1.1.2:53")}, unix.IPPROTO_UDP, "10.96.0.10:53", "10.1.1.3:53", false},
		"another port of the one":    {Stale{{service, unix.IPPROTO_UDP, 53}: answerers("10.1.1.2:53")}, unix.IPPROTO_UDP, "10.96.0.10:53", "10.1.1.2:54", false},
		"whoever answers":            {Stale{{service, unix.IPPROTO_UDP, 53}: nil}, unix.IPPROTO_UDP, "10.96.0.10:53", "10.1.1.3:53", true},
		"any endpoint, IPv6":         {Stale{{at("fd96::10"), unix.IPPROTO_UDP, 53}: nil}, unix.IPPROTO_UDP, "[fd96::10]:53", "[fd10::3]:53", true},
		"another port":               {Stale{{service, unix.IPPROTO_UDP, 53}: nil}, unix.IPPROTO_UDP, "10.96.0.10:54", "10.1.1.3:53", false},
		"another protocol":           {Stale{{service, unix.IPPROTO_UDP, 53}: nil}, unix.IPPROTO_SCTP, "10.96.0.10:53", "10.1.1.3:53", false},
		"all ports":                  {Stale{{service, unix.IPPROTO_UDP, 0}: answerers("10.1.1.2:0")}, unix.IPPROTO_UDP, "10.96.0.10:54", "10.1.1.2:54", true},
		"all protocols":              {Stale{{service, 0, 0}: answerers("10.1.1.2:0")}, unix.IPPROTO_SCTP, "10.96.0.10:54", "10.1.1.2:54", true},
		"all protocols, but not TCP": {Stale{{service, 0, 0}: answerers("10.1.1.2:0")}, unix.IPPROTO_TCP, "10.96.0.10:54", "10.1.1.2:54", false},
		"TCP that is asked for":      {Stale{{service, unix.IPPROTO_TCP, 80}: answerers("10.1.1.2:80")}, unix.IPPROTO_TCP, "10.96.0.10:80", "10.1.1.2:80", true},
		"nothing is stale":           {nil, unix.IPPROTO_UDP, "10.96.0.10:53", "10.1.1.3:53", false},
		"another destination":        {Stale{{service, unix.IPPROTO_UDP, 53}: nil}, unix.IPPROTO_UDP, "10.96.0.11:53", "10.1.1.3:53", false},
	} {
		to, by := netip.MustParseAddrPort(test.to), netip.MustParseAddrPort(test.by)
		c := &netlink.ConntrackFlow{}
		c.Forward.Protocol, c.Forward.DstIP, c.Forward.DstPort = test.protocol, net.IP(to.Addr().AsSlice()), to.Port()
		c.Reverse.SrcIP, c.Reverse.SrcPort = net.IP(by.Addr().AsSlice()), by.Port()
		if got := test.stale.MatchConntrackFlow(c); got != test.want {
			t.Errorf("%s: stale: %v, want %v", name, got, test.want)
		}
	}
}
