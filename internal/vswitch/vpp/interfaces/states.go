package interfaces

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	interfaces_api "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/interface_types"
)

// States returns the states of our interfaces.
func (v *Interfaces) States() vswitch.States { return states{v} }

type states struct{ *Interfaces }

func (v states) Watch(report func(...*vpp_interfaces.InterfaceState)) { v.reports.Watch(report) }

// List omits counters if VPP's statistics cannot be read.
func (v states) List(ctx context.Context) ([]*vpp_interfaces.InterfaceState, error) {
	list, err := v.readStates(ctx, func(i ownership.Index, s *vpp_interfaces.InterfaceState) { s.IfIndex = uint32(i) })
	if err != nil {
		return nil, fmt.Errorf("reading the states of the interfaces: %w", err)
	}
	counted, err := v.counters.Interfaces()
	if err != nil {
		v.log.Warn("Reading interface counters failed", "error", err)
	}
	for _, s := range list {
		s.Statistics = counted[ownership.Index(s.GetIfIndex())]
	}
	return list, nil
}

// readStates reads the states of our interfaces, sorted by name.
func (v *Interfaces) readStates(ctx context.Context, each func(ownership.Index, *vpp_interfaces.InterfaceState)) (list []*vpp_interfaces.InterfaceState, err error) {
	all, err := v.ifs.All(ctx)
	for _, d := range all {
		if name := ownership.LogicalName(d); name != "" {
			s := describeState(d, v.events.want(name))
			if each != nil {
				each(d.SwIfIndex, s)
			}
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *vpp_interfaces.InterfaceState) int { return strings.Compare(a.GetName(), b.GetName()) })
	return list, err
}

func isUp(d *interfaces_api.SwInterfaceDetails) bool {
	return d.Flags&interface_types.IF_STATUS_API_FLAG_ADMIN_UP != 0
}

// describeState returns an interface's state without counters. The type of a device that was taken
// over is the wanted value's.
func describeState(d *interfaces_api.SwInterfaceDetails, wanted *vpp_interfaces.Interface) *vpp_interfaces.InterfaceState {
	status := func(up bool) vpp_interfaces.InterfaceState_Status {
		if up {
			return vpp_interfaces.InterfaceState_UP
		}
		return vpp_interfaces.InterfaceState_DOWN
	}
	s := &vpp_interfaces.InterfaceState{
		Name: ownership.LogicalName(d), InternalName: d.InterfaceName, IfIndex: uint32(d.SwIfIndex), Type: typeOf(d),
		AdminStatus: status(isUp(d)), OperStatus: status(isUp(d) && d.Flags&interface_types.IF_STATUS_API_FLAG_LINK_UP != 0),
		Speed: uint64(d.LinkSpeed) * 1000,
	}
	if wanted.GetType() == vpp_interfaces.Interface_DPDK {
		s.Type = wanted.GetType()
	}
	if len(d.Mtu) > 0 {
		s.Mtu = d.Mtu[0]
	}
	if d.L2Address != [6]byte{} {
		s.PhysAddress = d.L2Address.String()
	}
	switch d.LinkDuplex {
	case interface_types.LINK_DUPLEX_API_HALF:
		s.Duplex = vpp_interfaces.InterfaceState_HALF
	case interface_types.LINK_DUPLEX_API_FULL:
		s.Duplex = vpp_interfaces.InterfaceState_FULL
	}
	return s
}
