package vpp

import (
	"net/netip"

	"go.fd.io/govpp/binapi/fib_types"
	"go.fd.io/govpp/binapi/ip_types"
)

// noInterface stands in paths for: whatever interface leads there.
const noInterface = ^uint32(0)

// pathVia is a path to a neighbour; weight and preference are what VPP makes of 0.
func pathVia(nextHop netip.Addr, iface uint32) fib_types.FibPath {
	p := fib_types.FibPath{SwIfIndex: iface, Weight: 1, Proto: fib_types.FIB_API_PATH_NH_PROTO_IP4}
	if nextHop.Is6() {
		p.Proto = fib_types.FIB_API_PATH_NH_PROTO_IP6
	}
	p.Nh.Address = addressOf(nextHop).Un
	return p
}

// nextHopOf returns the neighbour that a path leads to.
func nextHopOf(p fib_types.FibPath) netip.Addr {
	if p.Proto == fib_types.FIB_API_PATH_NH_PROTO_IP6 {
		return addrOf(ip_types.Address{Af: ip_types.ADDRESS_IP6, Un: p.Nh.Address})
	}
	return addrOf(ip_types.Address{Af: ip_types.ADDRESS_IP4, Un: p.Nh.Address})
}
