package cidr

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
)

// HostBits is the number of address bits behind the prefix.
func HostBits(p netip.Prefix) int { return p.Addr().BitLen() - p.Bits() }

// Host returns the address number n of the network; 0 is the network address.
func Host(p netip.Prefix, n uint64) (netip.Addr, error) {
	if HostBits(p) < 64 && n>>HostBits(p) != 0 {
		return netip.Addr{}, fmt.Errorf("network %v has no address #%d: its numbers end at %d", p, n, uint64(1)<<HostBits(p)-1)
	}
	return Add(p.Masked().Addr(), n), nil
}

// Index returns the number of the address within the network. ok is false for
// addresses outside of it and for numbers of more than 63 bits.
func Index(p netip.Prefix, addr netip.Addr) (n uint64, ok bool) {
	if !p.Contains(addr) {
		return 0, false
	}
	hi, lo := halves(addr)
	baseHi, baseLo := halves(p.Masked().Addr())
	lo, borrow := bits.Sub64(lo, baseLo, 0)
	hi, _ = bits.Sub64(hi, baseHi, borrow)
	return lo, hi == 0 && lo>>63 == 0
}

// Last returns the last address of the network: in IPv4, the broadcast address.
func Last(p netip.Prefix) netip.Addr {
	hi, lo := halves(p.Masked().Addr())
	switch n := HostBits(p); {
	case n > 64:
		hi |= 1<<(n-64) - 1
		lo = ^uint64(0)
	case n == 64:
		lo = ^uint64(0)
	default:
		lo |= 1<<n - 1
	}
	return fromHalves(hi, lo, p.Addr().Is4())
}

// Add returns the n-th address after addr. It wraps around at the end of the address family.
func Add(addr netip.Addr, n uint64) netip.Addr {
	hi, lo := halves(addr)
	lo, carry := bits.Add64(lo, n, 0)
	return fromHalves(hi+carry, lo, addr.Is4())
}

// Subnet returns the n-th network with the prefix length out of the network p.
func Subnet(p netip.Prefix, length int, n uint64) (netip.Prefix, error) {
	newBits := length - p.Bits()
	if newBits < 0 || length > p.Addr().BitLen() {
		return netip.Prefix{}, fmt.Errorf("network %v cannot be divided into networks of prefix length %d", p, length)
	}
	if newBits < 64 && n>>newBits != 0 {
		return netip.Prefix{}, fmt.Errorf("network %v has no subnet #%d of prefix length %d: it has only %d", p, n, length, uint64(1)<<newBits)
	}
	hi, lo := halves(p.Masked().Addr())
	addHi, addLo := shiftLeft(n, p.Addr().BitLen()-length)
	lo, carry := bits.Add64(lo, addLo, 0)
	hi, _ = bits.Add64(hi, addHi, carry)
	return netip.PrefixFrom(fromHalves(hi, lo, p.Addr().Is4()), length), nil
}

// halves splits an address into the halves of a 128-bit number. IPv4 fills the low 32 bits.
func halves(a netip.Addr) (hi, lo uint64) {
	if a.Is4() {
		b := a.As4()
		return 0, uint64(binary.BigEndian.Uint32(b[:]))
	}
	b := a.As16()
	return binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
}

func fromHalves(hi, lo uint64, is4 bool) netip.Addr {
	if is4 {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(lo))
		return netip.AddrFrom4(b)
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], hi)
	binary.BigEndian.PutUint64(b[8:], lo)
	return netip.AddrFrom16(b)
}

func shiftLeft(n uint64, by int) (hi, lo uint64) {
	if by >= 64 {
		return n << (by - 64), 0
	}
	return n >> (64 - by), n << by
}
