// Package kubeaddr parses IP addresses and networks of Kubernetes objects as Kubernetes does.
//
// The API server accepts texts that net/netip rejects or keeps: decimal numbers with leading zeros,
// IPv4-mapped IPv6 addresses (::ffff:10.1.2.4), which mean IPv4, and networks with host bits, which
// are masked. All readers of Kubernetes objects use this package. It is not for Contiv's own files.
package kubeaddr

import (
	"fmt"
	"net/netip"

	utilnet "k8s.io/utils/net"
)

// mappedBits is the prefix length of ::ffff:0:0/96, the IPv4-mapped addresses.
const mappedBits = 96

// ParseAddr parses an address. It converts an IPv4-mapped address to IPv4 and rejects zones. The
// error quotes the text and describes the expected form.
func ParseAddr(text string) (netip.Addr, error) {
	addr, ok := netip.AddrFromSlice(utilnet.ParseIPSloppy(text))
	if !ok {
		return netip.Addr{}, fmt.Errorf("%.64q is no IP address: write it like 192.0.2.10 or 2001:db8::10", text)
	}
	return addr.Unmap(), nil
}

// ParseNetwork parses a network and clears its host bits. It converts an IPv4-mapped network of at
// least 96 bits to IPv4. The error quotes the text and describes the expected form.
func ParseNetwork(text string) (netip.Prefix, error) {
	_, network, err := utilnet.ParseCIDRSloppy(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%.64q is no network: write it like 192.0.2.0/24 or 2001:db8::/64", text)
	}
	addr, _ := netip.AddrFromSlice(network.IP)
	bits, _ := network.Mask.Size()
	if addr.Is4In6() && bits >= mappedBits {
		addr, bits = addr.Unmap(), bits-mappedBits
	}
	return netip.PrefixFrom(addr, bits), nil
}

// ParseAddrs returns the valid addresses of a list in order, without duplicates.
func ParseAddrs(texts ...string) (addrs []netip.Addr) {
	seen := make(map[netip.Addr]bool, len(texts))
	for _, text := range texts {
		if addr, err := ParseAddr(text); err == nil && !seen[addr] {
			seen[addr] = true
			addrs = append(addrs, addr)
		}
	}
	return addrs
}
