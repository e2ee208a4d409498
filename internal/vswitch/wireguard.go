package vswitch

import (
	"net/netip"
)

// AllowedIP parses an allowed IP of a peer: a network, or a single address. It returns the zero
// Prefix if the text is invalid.
func AllowedIP(text string) netip.Prefix {
	if p, err := netip.ParsePrefix(text); err == nil {
		return p.Masked()
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(addr, addr.BitLen())
}
