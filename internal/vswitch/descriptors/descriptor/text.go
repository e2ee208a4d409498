package descriptor

import (
	"bytes"
	"net"
	"net/netip"
)

// IsIPv6 reports whether a text is an IPv6 address.
func IsIPv6(text string) bool {
	addr, err := netip.ParseAddr(text)
	return err == nil && addr.Is6()
}

// IsIPv6Network reports whether a text is an IPv6 address with prefix length.
func IsIPv6Network(text string) bool {
	prefix, err := netip.ParsePrefix(text)
	return err == nil && prefix.Addr().Is6()
}

// SamePrefixText reports whether two texts are the same address with prefix length.
func SamePrefixText(a, b string) bool {
	pa, errA := netip.ParsePrefix(a)
	pb, errB := netip.ParsePrefix(b)
	if errA != nil || errB != nil {
		return a == b
	}
	return pa == pb
}

// SameAddrText reports whether two texts are the same address.
func SameAddrText(a, b string) bool {
	pa, errA := netip.ParseAddr(a)
	pb, errB := netip.ParseAddr(b)
	if errA != nil || errB != nil {
		return a == b
	}
	return pa == pb
}

// SameMACText reports whether two texts are the same hardware address.
func SameMACText(a, b string) bool {
	ma, errA := net.ParseMAC(a)
	mb, errB := net.ParseMAC(b)
	if errA != nil || errB != nil {
		return a == b
	}
	return bytes.Equal(ma, mb)
}

// AddrLess reports whether a text is a lower address than another one.
func AddrLess(a, b string) bool {
	pa, errA := netip.ParseAddr(a)
	pb, errB := netip.ParseAddr(b)
	return errA == nil && errB == nil && pa.Less(pb)
}
