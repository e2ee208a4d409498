package bridges

import (
	"context"
	"fmt"
	"strings"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	"github.com/contiv/contiv/internal/netlink/rtnl"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/vishvananda/netlink"
)

// Driver implements bridge domains with Linux bridges, and their L2 FIB, in one network namespace.
// The ports hold the parameters of a bridge domain; the alias repeats them for a bridge without
// ports.
type Driver struct{ *own.Host }

// New returns a Driver, which needs no closing.
func New(host *own.Host) *Driver { return &Driver{host} }

type bridges struct{ *Driver }

func (v *Driver) BridgePort() vswitch.Bridges { return bridges{v} }

func parametersOf(bd *vpp_l2.BridgeDomain) own.BridgeParameters {
	return own.BridgeParameters{Flood: bd.GetFlood(), UnknownUnicastFlood: bd.GetUnknownUnicastFlood(), Learn: bd.GetLearn(), MacAge: bd.GetMacAge()}
}

func portFlags(p own.BridgeParameters, isolated bool) rtnl.PortFlags {
	return rtnl.PortFlags{
		Learning: p.Learn, UnicastFlood: p.UnknownUnicastFlood,
		BcastFlood: p.Flood, McastFlood: p.Flood, Isolated: isolated,
	}
}

// ageingTime returns hundredths of seconds. Linux cannot disable ageing, so 0 becomes ten years.
func ageingTime(p own.BridgeParameters) uint32 {
	const minute = 60 * 100
	if p.MacAge == 0 || p.MacAge > 255 {
		return 10 * 365 * 24 * 60 * minute / 16 // the kernel's counter has 32 bits
	}
	return p.MacAge * minute
}

func (v bridges) Create(_ context.Context, bd *vpp_l2.BridgeDomain) error {
	switch {
	case bd.GetArpTermination() || len(bd.GetArpTerminationTable()) > 0:
		return vswitch.Unsupported("arp_termination: use static ARP entries on the virtual interface")
	case !bd.GetForward():
		return vswitch.Unsupported("a bridge domain that does not forward: set forward, or delete it")
	}
	if err := v.addBridge(bd); err != nil {
		return fmt.Errorf("creating bridge domain %q: %w", bd.GetName(), err)
	}
	v.Reg.Put(bd)
	return nil
}

func (v bridges) addBridge(bd *vpp_l2.BridgeDomain) error {
	p := parametersOf(bd)
	alias := own.BridgeAlias(bd.GetName(), p)
	attrs := netlink.NewLinkAttrs()
	attrs.Name = own.DeviceName(own.DevBridge, bd.GetName())
	attrs.Group = own.DeviceGroup
	snooping, ageing := false, ageingTime(p)
	bridge := &netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping, AgeingTime: &ageing}
	err := v.Net.LinkAdd(bridge)
	if rtnl.Exists(err) {
		var complete netlink.Link
		if complete, err = v.Clear(attrs.Name, alias, attrs.Name); err != nil {
			return err
		}
		if complete != nil {
			return v.Net.SetLink(complete.Attrs().Index, rtnl.LinkChange{Up: true})
		}
		bridge.Index = 0
		err = v.Net.LinkAdd(bridge)
	}
	if err != nil {
		return fmt.Errorf("adding bridge %s: %w", attrs.Name, err)
	}
	if err := v.DisableIPv6(attrs.Name); err != nil {
		return err
	}
	return v.Net.SetLink(bridge.Index, rtnl.LinkChange{Alias: alias, Up: true})
}

// Update needs to check ARP termination only.
func (v bridges) Update(_ context.Context, _, new *vpp_l2.BridgeDomain) error {
	if len(new.GetArpTerminationTable()) > 0 {
		return vswitch.Unsupported("arp_termination: use static ARP entries on the virtual interface")
	}
	link, err := v.Bridge(new.GetName())
	if err != nil {
		return err
	}
	v.Reg.Put(new)
	return v.Net.SetLink(link.Attrs().Index, rtnl.LinkChange{Up: true})
}

func (v bridges) Delete(_ context.Context, bd *vpp_l2.BridgeDomain) error {
	err := v.Reg.During(bd, func() error {
		if device, ok := strings.CutPrefix(bd.GetName(), own.UnknownPrefix); ok {
			return v.DeleteUnmarked(device)
		}
		link, err := v.Bridge(bd.GetName())
		if err == nil {
			err = v.DelLink(link.Attrs().Index)
		}
		return rtnl.IgnoreGone(err)
	})
	if err != nil {
		return fmt.Errorf("deleting bridge domain %q: %w", bd.GetName(), err)
	}
	return nil
}

func (v bridges) Bind(_ context.Context, bd string, iface *vpp_l2.BridgeDomain_Interface) error {
	if err := v.bind(bd, iface); err != nil {
		return fmt.Errorf("binding interface %q to bridge domain %q: %w", iface.GetName(), bd, err)
	}
	v.Reg.Bind(iface.GetName(), bd)
	return nil
}

func (v bridges) bind(bd string, iface *vpp_l2.BridgeDomain_Interface) error {
	if iface.GetSplitHorizonGroup() > 1 {
		return vswitch.Unsupported("split horizon group %d: the Linux kernel has only groups 0 and 1", iface.GetSplitHorizonGroup())
	}
	if err := bridgeable(v.Reg.Iface(iface.GetName())); err != nil {
		return err
	}
	bridge, err := v.Bridge(bd)
	if err != nil {
		return err
	}
	_, params, _ := own.ParseBridgeAlias(bridge.Attrs().Alias)
	dev, err := v.PortOf(iface.GetName())
	if err != nil {
		return err
	}
	attrs, master := dev.Attrs(), bridge.Attrs().Index
	idle, err := v.IdleMaster(iface.GetName())
	if err != nil {
		return err
	}
	switch attrs.MasterIndex {
	case master:
	case 0, idle:
		if err := v.Net.SetLink(attrs.Index, rtnl.LinkChange{Master: &master}); err != nil {
			return fmt.Errorf("putting device %s into bridge %s: %w", attrs.Name, bridge.Attrs().Name, err)
		}
	default:
		return fmt.Errorf("its device %s is in another bridge: take it out of that first", attrs.Name)
	}
	if err := v.Net.SetPort(attrs.Index, portFlags(params, isolated(iface))); err != nil {
		return fmt.Errorf("setting the port flags of device %s: %w", attrs.Name, err)
	}
	return v.finishPort(iface.GetName(), attrs.Index, params)
}

// isolated ports do not forward to each other: split horizon group 1. Split horizon never applies
// to the bridged virtual interface.
func isolated(iface *vpp_l2.BridgeDomain_Interface) bool {
	return iface.GetSplitHorizonGroup() != 0 && !iface.GetBridgedVirtualInterface()
}

// finishPort applies the settings for the interface's type. A bridge without learning and flooding
// needs an entry for a loopback's MAC. A VXLAN device learns if its bridge does.
func (v bridges) finishPort(iface string, port int, params own.BridgeParameters) error {
	switch v.Reg.Iface(iface).GetType() {
	case vpp_interfaces.Interface_SOFTWARE_LOOPBACK:
		near, err := v.Link(iface)
		if err != nil {
			return err
		}
		if err := v.Net.SetLink(port, rtnl.LinkChange{Up: true}); err != nil {
			return err
		}
		return v.Net.NeighSet(own.StaticEntry(port, near.Attrs().HardwareAddr))
	case vpp_interfaces.Interface_VXLAN_TUNNEL:
		return v.Net.SetVXLANLearning(port, params.Learn)
	}
	return nil
}

func (v bridges) Unbind(_ context.Context, bd string, iface *vpp_l2.BridgeDomain_Interface) error {
	v.Reg.Bind(iface.GetName(), "")
	err := v.unbind(bd, iface.GetName())
	if rtnl.IgnoreGone(err) != nil {
		return fmt.Errorf("taking interface %q out of bridge domain %q: %w", iface.GetName(), bd, err)
	}
	return nil
}

func (v bridges) unbind(bd, iface string) error {
	bridge, err := v.Bridge(bd)
	if err != nil {
		return err
	}
	dev, err := v.PortOf(iface)
	if err != nil || dev.Attrs().MasterIndex != bridge.Attrs().Index {
		return err
	}
	if v.sharesDevice(bd, iface) {
		return nil
	}
	idle, err := v.IdleMaster(iface)
	if err != nil {
		return err
	}
	return v.Net.SetLink(dev.Attrs().Index, rtnl.LinkChange{Master: &idle})
}

func (v *Driver) sharesDevice(bd, iface string) bool {
	known := v.Reg.Iface(iface)
	if known.GetType() != vpp_interfaces.Interface_VXLAN_TUNNEL {
		return false
	}
	for _, domain := range own.All[*vpp_l2.BridgeDomain](v.Reg) {
		if domain.GetName() != bd {
			continue
		}
		for _, other := range domain.GetInterfaces() {
			o := v.Reg.Iface(other.GetName())
			if other.GetName() != iface && o.GetType() == vpp_interfaces.Interface_VXLAN_TUNNEL && own.TunnelOf(o).VXLANID == own.TunnelOf(known).VXLANID {
				return true
			}
		}
	}
	return false
}

func bridgeable(iface *vpp_interfaces.Interface) error {
	switch {
	case own.IsL3(iface):
		return vswitch.Unsupported("an interface of type %v carries IP packets, not frames: use VXLAN, or GRE of type TEB", iface.GetType())
	case iface.GetType() == vpp_interfaces.Interface_SUB_INTERFACE && iface.GetSub().GetTagRwOption() != vpp_interfaces.SubInterface_POP1:
		return vswitch.Unsupported("sub-interface %q would take the VLAN tag off frames: say so with sub.tag_rw_option POP1", iface.GetName())
	}
	return nil
}
