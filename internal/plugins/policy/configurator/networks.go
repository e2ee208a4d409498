package configurator

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/policy"
	"github.com/contiv/contiv/internal/kubernetes/kubeaddr"
)

// BlockOf returns the networks of a block without its exceptions. A block with an invalid exception
// is empty, because the exception may be any part of it. Errors continue the path of the peer.
func BlockOf(block *policy.Policy_Peer_IPBlock) ([]netip.Prefix, error) {
	cidr, err := kubeaddr.ParseNetwork(block.GetCidr())
	if err != nil {
		return nil, fmt.Errorf(".ipBlock.cidr: %w", err)
	}
	if n := len(block.GetExcept()); n > maxExceptions {
		return nil, fmt.Errorf(".ipBlock.except: %d networks, but at most %d are allowed", n, maxExceptions)
	}
	networks := []netip.Prefix{cidr}
	for i, text := range block.GetExcept() {
		except, err := kubeaddr.ParseNetwork(text)
		if err != nil {
			return nil, fmt.Errorf(".ipBlock.except[%d]: %w", i, err)
		}
		var left []netip.Prefix
		for _, network := range networks {
			left = append(left, subtract(network, except)...)
		}
		networks = left
	}
	return networks, nil
}

// subtract returns the siblings of each prefix on the way from network to other.
func subtract(network, other netip.Prefix) (left []netip.Prefix) {
	switch {
	case !network.Overlaps(other):
		return []netip.Prefix{network}
	case other.Bits() <= network.Bits():
		return nil
	}
	for bits := network.Bits() + 1; bits <= other.Bits(); bits++ {
		left = append(left, sibling(netip.PrefixFrom(other.Addr(), bits)))
	}
	return left
}

// sibling returns the other half of the next wider network.
func sibling(p netip.Prefix) netip.Prefix {
	bytes := p.Masked().Addr().AsSlice()
	bit := p.Bits() - 1
	bytes[bit/8] ^= 0x80 >> (bit % 8)
	addr, _ := netip.AddrFromSlice(bytes)
	return netip.PrefixFrom(addr, p.Bits())
}

// Disjoint sorts networks and removes those contained in another.
func Disjoint(networks []netip.Prefix) []netip.Prefix {
	slices.SortFunc(networks, func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	var left []netip.Prefix
	for _, network := range networks {
		if n := len(left); n > 0 && left[n-1].Overlaps(network) {
			continue
		}
		left = append(left, network)
	}
	return left
}
