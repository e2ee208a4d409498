package podguard

import "net/netip"

// A table compares at most 80 bytes, and 96 bytes lie between the next header of an ICMPv6 error
// and the end of the quoted destination. So the quote is compared by a second classifier, after the
// source, see policed.go:
//
//	ip6-input ─> ip6-policer-classify ─┬─ error about a packet to the pod ─> routes
//	                                   ├─ other error ─> dropped
//	                                   └─ anything else ─> routes

// quoteTables returns the tables for ICMPv6 errors that quote packets to the addresses, and for
// others. The sources of packets are known to be right.
func quoteTables(own []netip.Addr) []*table {
	received := &table{chain: chainIP6, spans: []span{errorType6, quotedDestination6}, policed: true}
	others := &table{chain: chainIP6, spans: []span{etherType, next6, errorType6}, policed: true}
	for _, a := range own {
		if a.Is6() {
			received.add(pass, one(0), ip(a))
		}
	}
	others.add(dropICMP, two(etherTypeIP6), one(icmp6), one(0))
	return []*table{received, others}
}
