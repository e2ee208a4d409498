package srv6

import "net/netip"

// sid combines the prefix of the network with the remaining bits of addr.
func sid(network string, addr netip.Addr) netip.Addr {
	prefix := netip.MustParsePrefix(network)
	id, first := addr.As16(), prefix.Addr().As16()
	for bit := range prefix.Bits() {
		mask := byte(0x80) >> (bit % 8)
		id[bit/8] = id[bit/8]&^mask | first[bit/8]&mask
	}
	return netip.AddrFrom16(id)
}
