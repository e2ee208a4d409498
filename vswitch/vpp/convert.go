package vpp

import (
	"fmt"
	"net"
	"net/netip"

	"go.fd.io/govpp/binapi/ethernet_types"
	"go.fd.io/govpp/binapi/ip_types"
)

// How addresses of northbound values are written in VPP's API, and the other way around.

// addressOf converts a valid address.
func addressOf(a netip.Addr) ip_types.Address {
	a = a.Unmap()
	if a.Is4() {
		return ip_types.Address{Af: ip_types.ADDRESS_IP4, Un: ip_types.AddressUnionIP4(a.As4())}
	}
	return ip_types.Address{Af: ip_types.ADDRESS_IP6, Un: ip_types.AddressUnionIP6(a.As16())}
}

func addrOf(a ip_types.Address) netip.Addr {
	if a.Af == ip_types.ADDRESS_IP6 {
		return netip.AddrFrom16(a.Un.GetIP6())
	}
	return netip.AddrFrom4(a.Un.GetIP4())
}

// prefixOf converts a valid prefix; host bits stay.
func prefixOf(p netip.Prefix) ip_types.Prefix {
	return ip_types.Prefix{Address: addressOf(p.Addr()), Len: uint8(p.Bits())}
}

func netipPrefix(p ip_types.Prefix) netip.Prefix {
	return netip.PrefixFrom(addrOf(p.Address), int(p.Len))
}

func parseAddr(text string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return addr, fmt.Errorf("%q is no IP address: %w", text, err)
	}
	return addr.Unmap(), nil
}

// parsePrefix returns the network, without host bits.
func parsePrefix(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, fmt.Errorf("%q is no IP network: %w", text, err)
	}
	return p.Masked(), nil
}

func parseMAC(text string) (mac ethernet_types.MacAddress, err error) {
	hw, err := net.ParseMAC(text)
	if err != nil || len(hw) != len(mac) {
		return mac, fmt.Errorf("%q is no MAC address", text)
	}
	copy(mac[:], hw)
	return mac, nil
}
