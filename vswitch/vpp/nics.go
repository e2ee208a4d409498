package vpp

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	interfaces_api "go.fd.io/govpp/binapi/interface"
)

// classDPDK is VPP's name of the kind of devices that DPDK drives.
const classDPDK = "dpdk"

// NICs returns VPP's names of the network cards that it drives by DPDK, in the order of
// their indexes, whether they are in use or not. Interfaces of the type DPDK with these
// names are those.
func (v *VSwitch) NICs(ctx context.Context) (names []string, err error) {
	all, err := dump[interfaces_api.SwInterfaceDetails](ctx, v, ifModule, &interfaces_api.SwInterfaceDump{SwIfIndex: ^index(0)})
	if err != nil {
		return nil, fmt.Errorf("listing the network cards of VPP: %w", err)
	}
	return nicNames(all), nil
}

// nicNames picks them from all interfaces.
func nicNames(all []*interfaces_api.SwInterfaceDetails) (names []string) {
	slices.SortFunc(all, func(a, b *interfaces_api.SwInterfaceDetails) int { return cmp.Compare(a.SwIfIndex, b.SwIfIndex) })
	for _, d := range all {
		if d.InterfaceDevType == classDPDK && !isSub(d) {
			names = append(names, d.InterfaceName)
		}
	}
	return names
}
