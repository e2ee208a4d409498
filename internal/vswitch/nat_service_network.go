package vswitch

import (
	"net/netip"
	"slices"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
)

// NormalServiceNetwork returns the value with sorted lists, without duplicates and with canonical
// prefixes.
func NormalServiceNetwork(n *contiv_nat.ServiceNetwork) *contiv_nat.ServiceNetwork {
	normal := func(list []string) (out []string) {
		for _, text := range list {
			if p, err := netip.ParsePrefix(text); err == nil {
				text = p.Masked().String()
			}
			out = append(out, text)
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	return &contiv_nat.ServiceNetwork{
		Inside: normal(n.GetInside()), ServiceSubnets: normal(n.GetServiceSubnets()), OutsideInterfaces: normal(n.GetOutsideInterfaces()),
		Overlay: normal(n.GetOverlay()), Uplinks: normal(n.GetUplinks()),
	}
}
