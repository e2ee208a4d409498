package convert

import (
	"net/netip"

	"go.fd.io/govpp/binapi/fib_types"
	"go.fd.io/govpp/binapi/ip_types"
)

// AnyInterface in paths means any interface.
const AnyInterface = ^uint32(0)

// PathVia is a path to a neighbour, with VPP's default weight and preference.
func PathVia(nextHop netip.Addr, iface uint32) fib_types.FibPath {
	p := fib_types.FibPath{SwIfIndex: iface, Weight: 1, Proto: fib_types.FIB_API_PATH_NH_PROTO_IP4}
	if nextHop.Is6() {
		p.Proto = fib_types.FIB_API_PATH_NH_PROTO_IP6
	}
	p.Nh.Address = Address(nextHop).Un
	return p
}

// NextHop returns the neighbour that a path leads to.
func NextHop(p fib_types.FibPath) netip.Addr {
	if p.Proto == fib_types.FIB_API_PATH_NH_PROTO_IP6 {
		return Addr(ip_types.Address{Af: ip_types.ADDRESS_IP6, Un: p.Nh.Address})
	}
	return Addr(ip_types.Address{Af: ip_types.ADDRESS_IP4, Un: p.Nh.Address})
}
