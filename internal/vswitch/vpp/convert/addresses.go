package convert

import (
	"fmt"
	"net"
	"net/netip"

	"go.fd.io/govpp/binapi/ethernet_types"
	"go.fd.io/govpp/binapi/ip_types"
)

// Conversion of addresses between northbound values and VPP's API.

// Address converts a valid address.
func Address(a netip.Addr) ip_types.Address {
	a = a.Unmap()
	if a.Is4() {
		return ip_types.Address{Af: ip_types.ADDRESS_IP4, Un: ip_types.AddressUnionIP4(a.As4())}
	}
	return ip_types.Address{Af: ip_types.ADDRESS_IP6, Un: ip_types.AddressUnionIP6(a.As16())}
}

// SameAddress reports whether two addresses are equal. A plain comparison fails, because VPP sends
// random memory behind IPv4 addresses.
func SameAddress(a, b ip_types.Address) bool { return Addr(a) == Addr(b) }

func Addr(a ip_types.Address) netip.Addr {
	if a.Af == ip_types.ADDRESS_IP6 {
		return netip.AddrFrom16(a.Un.GetIP6())
	}
	return netip.AddrFrom4(a.Un.GetIP4())
}

// Prefix converts a valid prefix and keeps host bits.
func Prefix(p netip.Prefix) ip_types.Prefix {
	return ip_types.Prefix{Address: Address(p.Addr()), Len: uint8(p.Bits())}
}

func NetipPrefix(p ip_types.Prefix) netip.Prefix {
	return netip.PrefixFrom(Addr(p.Address), int(p.Len))
}

func ParseAddr(text string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return addr, fmt.Errorf("%q is no IP address: %w", text, err)
	}
	return addr.Unmap(), nil
}

// ParsePrefix returns the network, without host bits.
func ParsePrefix(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, fmt.Errorf("%q is no IP network: %w", text, err)
	}
	return p.Masked(), nil
}

func ParseMAC(text string) (mac ethernet_types.MacAddress, err error) {
	hw, err := net.ParseMAC(text)
	if err != nil || len(hw) != len(mac) {
		return mac, fmt.Errorf("%q is no MAC address", text)
	}
	copy(mac[:], hw)
	return mac, nil
}

// Family returns the IP version as VPP has it.
func Family(ipv6 bool) ip_types.AddressFamily {
	if ipv6 {
		return ip_types.ADDRESS_IP6
	}
	return ip_types.ADDRESS_IP4
}

// Texts returns the notation of addresses in the expected values.
func Texts[V any](expected []V, text func(V) string) func(netip.Addr) string {
	texts := map[netip.Addr]string{}
	for _, v := range expected {
		if addr, err := netip.ParseAddr(text(v)); err == nil {
			texts[addr] = text(v)
		}
	}
	return func(addr netip.Addr) string {
		if text := texts[addr]; text != "" {
			return text
		}
		return addr.String()
	}
}

// NoTable is the FIB table number of VPP's internal tables.
const NoTable = ^uint32(0)
