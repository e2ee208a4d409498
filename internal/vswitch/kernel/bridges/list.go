package bridges

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	"github.com/vishvananda/netlink"
)

type l2State struct {
	*own.Devices
	ports []rtnl.Port
	fdb   []netlink.Neigh
	v     *Driver
}

func (v *Driver) readL2() (*l2State, error) {
	devs, err := v.Devices()
	if err != nil {
		return nil, err
	}
	ports, err := v.Net.Ports()
	if err != nil {
		return nil, fmt.Errorf("reading bridge ports: %w", err)
	}
	fdb, err := v.Fdb(0)
	return &l2State{Devices: devs, ports: ports, fdb: fdb, v: v}, err
}

func (v bridges) List(_ context.Context, expected []*vpp_l2.BridgeDomain) ([]*vpp_l2.BridgeDomain, error) {
	s, err := v.readL2()
	if err != nil {
		return nil, err
	}
	wanted := map[string]*vpp_l2.BridgeDomain{}
	for _, bd := range expected {
		wanted[bd.GetName()] = bd
	}
	var list []*vpp_l2.BridgeDomain
	for _, link := range s.ByIndex {
		name, params, ok := own.ParseBridgeAlias(link.Attrs().Alias)
		_, isBridge := link.(*netlink.Bridge)
		switch {
		case ok && link.Attrs().Flags&net.FlagUp != 0:
			list = append(list, s.describeBD(name, params, link, wanted[name]))
		case ok:
			list = append(list, &vpp_l2.BridgeDomain{Name: name})
		case isBridge && own.IsUnmarked(link):
			list = append(list, &vpp_l2.BridgeDomain{Name: own.UnknownPrefix + link.Attrs().Name})
		}
	}
	slices.SortFunc(list, func(a, b *vpp_l2.BridgeDomain) int { return strings.Compare(a.GetName(), b.GetName()) })
	own.Settle(v.Reg, expected, list)
	for _, bd := range list {
		for _, iface := range bd.GetInterfaces() {
			v.Reg.Bind(iface.GetName(), bd.GetName())
		}
	}
	return list, nil
}

func (s *l2State) describeBD(name string, p own.BridgeParameters, bridge netlink.Link, expected *vpp_l2.BridgeDomain) *vpp_l2.BridgeDomain {
	bd := &vpp_l2.BridgeDomain{
		Name: name, Flood: p.Flood, UnknownUnicastFlood: p.UnknownUnicastFlood, Forward: true, Learn: p.Learn, MacAge: p.MacAge,
	}
	wanted := map[string]*vpp_l2.BridgeDomain_Interface{}
	for _, iface := range expected.GetInterfaces() {
		wanted[iface.GetName()] = iface
	}
	for _, port := range s.ports {
		if port.Master != bridge.Attrs().Index {
			continue
		}
		for _, iface := range s.interfacesOfPort(port, wanted, expected != nil) {
			// An incomplete port counts as not bound, so that binding it again repairs it.
			if port.Flags == portFlags(p, isolated(iface)) && s.finished(port, iface) {
				bd.Interfaces = append(bd.Interfaces, iface)
			}
		}
	}
	slices.SortFunc(bd.Interfaces, func(a, b *vpp_l2.BridgeDomain_Interface) int { return strings.Compare(a.GetName(), b.GetName()) })
	return bd
}

// interfacesOfPort returns the interfaces of a port. A VXLAN device carries several tunnels; the
// expected value says which of them were bound.
func (s *l2State) interfacesOfPort(p rtnl.Port, wanted map[string]*vpp_l2.BridgeDomain_Interface, known bool) (list []*vpp_l2.BridgeDomain_Interface) {
	add := func(name string, bvi bool) {
		iface := &vpp_l2.BridgeDomain_Interface{Name: name, BridgedVirtualInterface: bvi}
		if w := wanted[name]; w != nil {
			iface.BridgedVirtualInterface = w.GetBridgedVirtualInterface()
		}
		switch {
		case iface.BridgedVirtualInterface:
			iface.SplitHorizonGroup = wanted[name].GetSplitHorizonGroup()
		case p.Flags.Isolated:
			iface.SplitHorizonGroup = 1
		}
		list = append(list, iface)
	}
	link, ok := s.ByIndex[p.Index]
	if !ok {
		return nil
	}
	if name, ok := strings.CutPrefix(link.Attrs().Alias, own.AliasPort); ok {
		add(name, true)
		return list
	}
	if id, ok := own.ParseVXLANAlias(link.Attrs().Alias); ok {
		for _, iface := range own.All[*vpp_interfaces.Interface](s.v.Reg) {
			if iface.GetType() == vpp_interfaces.Interface_VXLAN_TUNNEL && own.TunnelOf(iface).VXLANID == id &&
				(!known || wanted[iface.GetName()] != nil) {
				add(iface.GetName(), false)
			}
		}
		return list
	}
	if name, ok := s.nameOf(p.Index); ok {
		add(name, false)
	}
	return list
}

func (s *l2State) nameOf(index int) (string, bool) {
	for _, iface := range own.All[*vpp_interfaces.Interface](s.v.Reg) {
		if iface.GetType() == vpp_interfaces.Interface_AF_PACKET {
			if link := s.HostSide(iface); link != nil && link.Attrs().Index == index {
				return iface.GetName(), true
			}
		}
	}
	return s.Logical(index)
}

// finished reports whether the settings of finishPort are in place.
func (s *l2State) finished(p rtnl.Port, iface *vpp_l2.BridgeDomain_Interface) bool {
	link := s.ByIndex[p.Index]
	if link.Attrs().Flags&net.FlagUp == 0 && own.IsOurs(link) {
		return false
	}
	near, isLoopback := s.ByLogical[iface.GetName()]
	if _, ok := strings.CutPrefix(link.Attrs().Alias, own.AliasPort); !ok || !isLoopback {
		return true
	}
	mac := near.Attrs().HardwareAddr.String()
	return slices.ContainsFunc(s.fdb, func(e netlink.Neigh) bool {
		return e.LinkIndex == p.Index && e.MasterIndex == p.Master && e.HardwareAddr.String() == mac && e.State&netlink.NUD_NOARP != 0
	})
}
