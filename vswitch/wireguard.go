package vswitch

import (
	"net/netip"
)

// AllowedIP is the network that a text among the allowed IPs of a peer stands for; of
// an address, that alone. The zero Prefix if it is none.
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
