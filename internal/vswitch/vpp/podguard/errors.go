package podguard

import (
	"net"
	"net/netip"
)

// A pod may send an ICMP error only about a packet that it received: one that was sent to an
// address of the pod. So it cannot lower the path MTU between others, or end their connections. A
// path MTU must be at least that of the IP version. Redirects are dropped.
//
// The classifier compares bytes at fixed places. So errors behind IPv4 options or IPv6 extension
// headers, and errors in fragments, are dropped, whatever they quote.

// Parts of frames with ICMP errors, behind headers without options.
var (
	version4           = span{at: 14, n: 1} // and header length
	fragmentOffset4    = []span{{at: 20, n: 1, bits: 0x1f}, {at: 21, n: 1}}
	anyFragment4       = []span{{at: 20, n: 1, bits: 0x3f}, {at: 21, n: 1}}
	kind4              = span{at: 34, n: 1}
	code4              = span{at: 35, n: 1}
	pathMTU4           = []span{{at: 40, n: 1}, {at: 41, n: 1, bits: 0xc0}}
	quotedDestination4 = span{at: 58, n: 4}

	inner6             = span{at: 54, n: 1} // next header of an extension header
	innerLength6       = span{at: 55, n: 1}
	fragmentOffset6    = []span{{at: 56, n: 1}, {at: 57, n: 1, bits: 0xf8}}
	innerType6         = span{at: 62, n: 1}
	innerError6        = span{at: 62, n: 1, bits: 0x80}
	pathMTU6           = span{at: 58, n: 3}
	errorType6         = span{at: 54, n: 1, bits: 0x80} // zero for errors
	quotedDestination6 = span{at: 86, n: 16}
)

const (
	icmp4         = 1
	unreachable4  = 3
	tooBigCode4   = 4
	sourceQuench4 = 4
	redirect4     = 5
	timeExceeded4 = 11
	badParameter4 = 12
	tooBig6       = 2

	routingHeader      = 43
	destinationOptions = 60

	groupReport  = 131
	groupDone    = 132
	groupReport2 = 143
)

// errorTables4 returns the tables for ICMP errors from the addresses.
func errorTables4(mac net.HardwareAddr, own []netip.Addr) []*table {
	from := func(spans ...span) *table {
		return &table{chain: chainIP4, spans: append([]span{sourceMAC, protocol4, source4}, spans...)}
	}
	options := from(version4)
	tiny := from(append(append([]span{kind4, code4}, fragmentOffset4...), pathMTU4...)...)
	received := from(append(append([]span{kind4}, anyFragment4...), quotedDestination4)...)
	others := from(append([]span{kind4}, fragmentOffset4...)...)
	for _, a := range own {
		add := func(t *table, v verdict, values ...[]byte) {
			t.add(v, append([][]byte{mac, one(icmp4), ip(a)}, values...)...)
		}
		for words := byte(6); words <= 15; words++ {
			add(options, dropICMP, one(0x40|words))
		}
		for high := byte(0); high <= 1; high++ { // less than 512
			for low := range byte(4) {
				add(tiny, dropICMP, one(unreachable4), one(tooBigCode4), one(0), one(0), one(high), one(low<<6))
			}
		}
		add(tiny, dropICMP, one(unreachable4), one(tooBigCode4), one(0), one(0), one(2), one(0)) // less than 576
		for _, kind := range []byte{unreachable4, sourceQuench4, timeExceeded4, badParameter4} {
			for _, b := range own {
				add(received, pass, one(kind), one(0), one(0), ip(b))
			}
		}
		for _, kind := range []byte{unreachable4, sourceQuench4, redirect4, timeExceeded4, badParameter4} {
			add(others, dropICMP, one(kind), one(0), one(0))
		}
	}
	return []*table{options, tiny, received, others}
}

// errorTables6 returns the tables for ICMPv6 errors from the addresses that are dropped whatever
// they quote. The quoted packets are compared afterwards, see quotes.go.
func errorTables6(mac net.HardwareAddr, own []netip.Addr) []*table {
	from := func(spans ...span) *table {
		return &table{chain: chainIP6, spans: append([]span{sourceMAC, next6, source6}, spans...)}
	}
	groups := from(inner6, innerLength6, innerType6)
	hidden := from(inner6)
	divided := from(append([]span{inner6, innerError6}, fragmentOffset6...)...)
	tiny := from(icmpType, pathMTU6)
	for _, a := range own {
		add := func(t *table, v verdict, next byte, values ...[]byte) {
			t.add(v, append([][]byte{mac, one(next), ip(a)}, values...)...)
		}
		for _, kind := range []byte{groupReport, groupDone, groupReport2} { // behind a router alert
			add(groups, pass, hopByHop, one(icmp6), one(0), one(kind))
		}
		extensions := []byte{hopByHop, routingHeader, fragment, destinationOptions}
		for _, outer := range extensions {
			for _, inner := range extensions {
				add(hidden, dropICMP, outer, one(inner))
			}
			if outer != fragment {
				add(hidden, dropICMP, outer, one(icmp6))
			}
		}
		add(divided, dropICMP, fragment, one(icmp6), one(0), one(0), one(0))
		for high := range byte(5) { // less than 1280
			add(tiny, dropICMP, icmp6, one(tooBig6), []byte{0, 0, high})
		}
	}
	return []*table{groups, hidden, divided, tiny}
}
