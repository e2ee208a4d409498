package interfaces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"

	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	interfaces_api "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/interface_types"
)

// classDPDK is VPP's device class of DPDK devices.
const classDPDK = "dpdk"

// NICs returns VPP's names of its DPDK network cards in index order, used or not. Interfaces of the
// type DPDK have these names.
func (v *Interfaces) NICs(ctx context.Context) (names []string, err error) {
	all, err := v.ifs.All(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the network cards of VPP: %w", err)
	}
	return nicNames(all), nil
}

// NIC returns VPP's name of the DPDK network card with an index.
func (v *Interfaces) NIC(ctx context.Context, index uint32) (string, error) {
	all, err := v.ifs.All(ctx)
	if err != nil {
		return "", fmt.Errorf("looking for the network card %d of VPP: %w", index, err)
	}
	names := nicNames(all)
	var others []string
	for _, d := range all {
		switch {
		case !slices.Contains(names, d.InterfaceName):
		case uint32(d.SwIfIndex) == index:
			return d.InterfaceName, nil
		default:
			others = append(others, fmt.Sprintf("%d (%s)", d.SwIfIndex, d.InterfaceName))
		}
	}
	return "", fmt.Errorf("no network card of VPP has the index %d; its DPDK network cards: %s", index, cmp.Or(strings.Join(others, ", "), "none"))
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

// isHardware reports whether a device is a network card and not its VLAN.
func isHardware(d *interfaces_api.SwInterfaceDetails) bool {
	return d.InterfaceDevType == classDPDK && d.Type == interface_types.IF_API_TYPE_HARDWARE
}

// initFailure returns why VPP could not initialize a network card; nil if it could. VPP sets such a
// card up like others, but its link stays down.
func (v *Interfaces) initFailure(ctx context.Context, d *interfaces_api.SwInterfaceDetails) error {
	if !isHardware(d) || d.Flags&interface_types.IF_STATUS_API_FLAG_LINK_UP != 0 {
		return nil
	}
	text, err := v.vpp.CLI(ctx, "show hardware-interfaces "+d.InterfaceName)
	if err != nil || !strings.Contains(text, "pmd-init-fail") {
		return err
	}
	_, reason, _ := strings.Cut(text, "Errors:")
	return fmt.Errorf("DPDK could not initialize the network card: %s (VPP's log says more: show log)", cmp.Or(strings.Join(strings.Fields(reason), " "), "no reason given"))
}

// brokenNICs returns our interfaces that are set up but failed to initialize.
func (v *Interfaces) brokenNICs(ctx context.Context, all []*interfaces_api.SwInterfaceDetails) (map[ownership.Index]bool, error) {
	broken := map[ownership.Index]bool{}
	for _, d := range all {
		if ownership.LogicalName(d) != "" && isUp(d) {
			err := v.initFailure(ctx, d)
			if errors.Is(err, vppapi.ErrClosed) {
				return nil, err
			}
			broken[d.SwIfIndex] = err != nil
		}
	}
	return broken, nil
}
