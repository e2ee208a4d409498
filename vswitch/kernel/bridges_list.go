package kernel

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	"github.com/vishvananda/netlink"
)

// l2State is what bridge domains are read from.
type l2State struct {
	*devices
	ports []port
	fdb   []netlink.Neigh
	v     *VSwitch
}

func (v *VSwitch) readL2() (*l2State, error) {
	devs, err := v.devices()
	if err != nil {
		return nil, err
	}
	ports, err := v.raw.ports()
	if err != nil {
		return nil, fmt.Errorf("reading bridge ports: %w", err)
	}
	fdb, err := v.fdb(0)
	return &l2State{devices: devs, ports: ports, fdb: fdb, v: v}, err
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
	for _, link := range s.byIndex {
		name, params, ok := parseBDAlias(link.Attrs().Alias)
		_, isBridge := link.(*netlink.Bridge)
		switch {
		case ok && link.Attrs().Flags&net.FlagUp != 0:
			list = append(list, s.describeBD(name, params, link, wanted[name]))
		case ok: // a bridge that is down forwards nothing
			list = append(list, &vpp_l2.BridgeDomain{Name: name})
		case isBridge && isUnmarked(link):
			list = append(list, &vpp_l2.BridgeDomain{Name: unknownPrefix + link.Attrs().Name})
		}
	}
	slices.SortFunc(list, func(a, b *vpp_l2.BridgeDomain) int { return strings.Compare(a.GetName(), b.GetName()) })
	settle(v.reg, expected, list)
	for _, bd := range list {
		for _, iface := range bd.GetInterfaces() {
			v.reg.bind(iface.GetName(), bd.GetName())
		}
	}
	return list, nil
}

func (s *l2State) describeBD(name string, p bdParameters, bridge netlink.Link, expected *vpp_l2.BridgeDomain) *vpp_l2.BridgeDomain {
	bd := &vpp_l2.BridgeDomain{
		Name: name, Flood: p.flood, UnknownUnicastFlood: p.unknownUnicastFlood, Forward: true, Learn: p.learn, MacAge: p.macAge,
	}
	wanted := map[string]*vpp_l2.BridgeDomain_Interface{}
	for _, iface := range expected.GetInterfaces() {
		wanted[iface.GetName()] = iface
	}
	for _, port := range s.ports {
		if port.master != bridge.Attrs().Index {
			continue
		}
		for _, iface := range s.interfacesOfPort(port, wanted, expected != nil) {
			// What does not work as it should is as good as not bound: binding it
			// again repairs it.
			if port.flags == p.portFlags(isolated(iface)) && s.finished(port, iface) {
				bd.Interfaces = append(bd.Interfaces, iface)
			}
		}
	}
	slices.SortFunc(bd.Interfaces, func(a, b *vpp_l2.BridgeDomain_Interface) int { return strings.Compare(a.GetName(), b.GetName()) })
	return bd
}

// interfacesOfPort returns the interfaces that a port stands for. All tunnels of
// a VXLAN device come with it; which of them were bound is for the expected value
// to say.
func (s *l2State) interfacesOfPort(p port, wanted map[string]*vpp_l2.BridgeDomain_Interface, known bool) (list []*vpp_l2.BridgeDomain_Interface) {
	add := func(name string, bvi bool) {
		iface := &vpp_l2.BridgeDomain_Interface{Name: name, BridgedVirtualInterface: bvi}
		if w := wanted[name]; w != nil {
			iface.BridgedVirtualInterface = w.GetBridgedVirtualInterface()
		}
		switch {
		case iface.BridgedVirtualInterface:
			iface.SplitHorizonGroup = wanted[name].GetSplitHorizonGroup()
		case p.flags.isolated:
			iface.SplitHorizonGroup = 1
		}
		list = append(list, iface)
	}
	link, ok := s.byIndex[p.index]
	if !ok {
		return nil
	}
	if name, ok := strings.CutPrefix(link.Attrs().Alias, aliasPort); ok {
		add(name, true)
		return list
	}
	if id, ok := parseVXLANAlias(link.Attrs().Alias); ok {
		for _, iface := range all[*vpp_interfaces.Interface](s.v.reg) {
			if iface.GetType() == vpp_interfaces.Interface_VXLAN_TUNNEL && tunnelOf(iface).vxlanID == id &&
				(!known || wanted[iface.GetName()] != nil) {
				add(iface.GetName(), false)
			}
		}
		return list
	}
	if name, ok := s.nameOf(p.index); ok {
		add(name, false)
	}
	return list
}

// nameOf returns the logical name behind a device, AF_PACKET interfaces included.
func (s *l2State) nameOf(index int) (string, bool) {
	for _, iface := range all[*vpp_interfaces.Interface](s.v.reg) {
		if iface.GetType() == vpp_interfaces.Interface_AF_PACKET {
			if link := s.hostSide(iface); link != nil && link.Attrs().Index == index {
				return iface.GetName(), true
			}
		}
	}
	return s.logical(index)
}

// finished tells if finishPort has been done.
func (s *l2State) finished(p port, iface *vpp_l2.BridgeDomain_Interface) bool {
	link := s.byIndex[p.index]
	if link.Attrs().Flags&net.FlagUp == 0 && isOurs(link) {
		return false
	}
	near, isLoopback := s.byLogical[iface.GetName()]
	if _, ok := strings.CutPrefix(link.Attrs().Alias, aliasPort); !ok || !isLoopback {
		return true
	}
	mac := near.Attrs().HardwareAddr.String()
	return slices.ContainsFunc(s.fdb, func(e netlink.Neigh) bool {
		return e.LinkIndex == p.index && e.MasterIndex == p.master && e.HardwareAddr.String() == mac && e.State&netlink.NUD_NOARP != 0
	})
}
