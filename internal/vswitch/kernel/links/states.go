package links

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func (v *Driver) StatePort() vswitch.States { return states{v} }

type states struct{ *Driver }

func (v states) Watch(report func(...*vpp_interfaces.InterfaceState)) { v.reports.Watch(report) }

// List reads all devices at once. Tunnels that share a device have no counters.
func (v states) List(context.Context) ([]*vpp_interfaces.InterfaceState, error) {
	devs, err := v.DevicesAndCounters()
	if err != nil {
		return nil, fmt.Errorf("reading the states of the interfaces: %w", err)
	}
	var list []*vpp_interfaces.InterfaceState
	for _, link := range devs.ByIndex {
		for _, state := range v.statesOf(link, v.settings) {
			state.Statistics = statistics(link)
			if state.GetType() == vpp_interfaces.Interface_VXLAN_TUNNEL {
				state.Statistics = nil
			}
			list = append(list, state)
		}
	}
	slices.SortFunc(list, func(a, b *vpp_interfaces.InterfaceState) int { return strings.Compare(a.GetName(), b.GetName()) })
	return list, nil
}

type settingsReader func(device string) (uint64, vpp_interfaces.InterfaceState_Duplex)

func noSettings(string) (speed uint64, duplex vpp_interfaces.InterfaceState_Duplex) { return }

func (v *Driver) settings(device string) (speed uint64, duplex vpp_interfaces.InterfaceState_Duplex) {
	return linkSettings(v.Net.Socket(), device)
}

func (v *Driver) statesOf(link netlink.Link, settings settingsReader) (list []*vpp_interfaces.InterfaceState) {
	attrs := link.Attrs()
	var ifaces []*vpp_interfaces.Interface
	if id, ok := own.ParseVXLANAlias(attrs.Alias); ok {
		ifaces = v.Tunnels(func(t own.Tunnel) bool { return t.VXLANID == id })
	} else if iface := v.interfaceOf(link); iface != nil {
		ifaces = append(ifaces, iface)
	}
	status := func(up bool) vpp_interfaces.InterfaceState_Status {
		if up {
			return vpp_interfaces.InterfaceState_UP
		}
		return vpp_interfaces.InterfaceState_DOWN
	}
	for _, iface := range ifaces {
		state := &vpp_interfaces.InterfaceState{
			Name: iface.GetName(), InternalName: attrs.Name, IfIndex: uint32(attrs.Index), Type: iface.GetType(),
			AdminStatus: status(attrs.Flags&net.FlagUp != 0), OperStatus: status(attrs.RawFlags&unix.IFF_RUNNING != 0 && attrs.Flags&net.FlagUp != 0),
			Mtu: uint32(attrs.MTU),
		}
		if len(attrs.HardwareAddr) == 6 {
			state.PhysAddress = attrs.HardwareAddr.String()
		}
		state.Speed, state.Duplex = settings(attrs.Name)
		list = append(list, state)
	}
	return list
}

func (v *Driver) interfaceOf(link netlink.Link) *vpp_interfaces.Interface {
	if name, ok := strings.CutPrefix(link.Attrs().Alias, own.AliasInterface); ok {
		return v.Reg.Iface(name)
	}
	if own.IsOurs(link) {
		return nil
	}
	name, ok := v.Dev.Name(link.Attrs().Index)
	if !ok {
		name = link.Attrs().Name
	}
	switch iface := v.Reg.Iface(name); iface.GetType() {
	case vpp_interfaces.Interface_DPDK, vpp_interfaces.Interface_AF_PACKET:
		return iface
	}
	return nil
}

func statistics(link netlink.Link) *vpp_interfaces.InterfaceState_Statistics {
	s := link.Attrs().Statistics
	if s == nil {
		return nil
	}
	return &vpp_interfaces.InterfaceState_Statistics{
		InPackets: s.RxPackets, InBytes: s.RxBytes, OutPackets: s.TxPackets, OutBytes: s.TxBytes,
		DropPackets: s.RxDropped + s.TxDropped, InMissPackets: s.RxMissedErrors,
		InErrorPackets: s.RxErrors, OutErrorPackets: s.TxErrors,
	}
}

// tellOf reports devices that were just read to the observers.
func (v *Driver) tellOf(links ...netlink.Link) {
	var found []*vpp_interfaces.InterfaceState
	for _, link := range links {
		found = append(found, v.statesOf(link, v.settings)...)
	}
	v.reports.Tell(found...)
}

// ReportAll sends the observers all interface states that they do not know.
func (v *Driver) ReportAll(ctx context.Context) {
	if !v.reports.Wanted() {
		return
	}
	found, err := states{v}.List(ctx)
	if err != nil {
		v.Log.Warn("Reporting interface states failed", "error", err)
		return
	}
	for _, s := range found {
		s.Statistics = nil // counters are no change
	}
	v.reports.Tell(found...)
}

func (v *Driver) reportInterface(iface *vpp_interfaces.Interface) {
	if !v.reports.Wanted() {
		return
	}
	find := v.Link
	if iface.GetType() == vpp_interfaces.Interface_VXLAN_TUNNEL {
		find = v.PortOf
	}
	if link, err := find(iface.GetName()); err == nil {
		v.tellOf(link)
	}
}
