// Package kubeaddr reads IP addresses and networks in Kubernetes objects as Kubernetes reads them.
//
// The API server keeps texts that net/netip refuses: numbers with leading zeros, which are decimal; IPv4 addresses written as IPv6
// (::ffff:10.1.2.4), which are IPv4; and networks with host bits, which are masked. Every reader of Kubernetes objects uses this
// package, so that all parts of Contiv agree about an object. Texts of Contiv's own files and values are not for it.
package kubeaddr

import (
	"fmt"
	"net/netip"

	utilnet "k8s.io/utils/net"
)

// mappedBits is the length of the prefix ::ffff:0:0/96, which contains the IPv4 addresses that are written as IPv6.
const mappedBits = 96

// ParseAddr reads an address. An IPv4 address that is written as IPv6 becomes IPv4. Addresses with a zone are refused. The error
// quotes the text and says which form is expected.
func ParseAddr(text string) (netip.Addr, error) {
	addr, ok := netip.AddrFromSlice(utilnet.ParseIPSloppy(text))
	if !ok {
		return netip.Addr{}, fmt.Errorf("%.64q is no IP address: write it like 192.0.2.10 or 2001:db8::10", text)
	}
	return addr.Unmap(), nil
}

// ParseNetwork reads a network and clears its host bits. A network of at least 96 bits that is written as IPv4 in IPv6 becomes IPv4.
// The error quotes the text and says which form is expected.
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

// ParseAddrs reads the addresses of a list that can be read, in order and each once.
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
