package bridges

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	"github.com/vishvananda/netlink"
)

// A loopback is a bridge. As the virtual interface of a bridge domain, it holds the domain's ports:
//
//	not bound   c-<loopback>                  cb-<domain> <── ports
//	bound       c-<loopback> <── ports        cb-<domain>, whose alias names the loopback
//	disabled    c-<loopback>, down            cb-<domain> <── ports, because a bridge that is down
//	                                          does not forward
//
// Ports are in the loopback only while the alias names it. So an interrupted binding is finished by
// repeating it.
//
// Earlier versions made a loopback as a veth pair. Such a pair stays until it is deleted, and its
// far end is a port like others.

// domain is a bridge domain in the kernel.
type domain struct {
	name   string
	params own.BridgeParameters
	bridge netlink.Link
	// virtual is the loopback that the alias of the bridge names; nil: none.
	virtual netlink.Link
	// holder is the index of the bridge that should hold the ports.
	holder int
}

func (v *Driver) domain(name string) (*domain, error) {
	bridge, err := v.Bridge(name)
	if err != nil {
		return nil, err
	}
	_, params, _ := own.ParseBridgeAlias(bridge.Attrs().Alias)
	virtual, err := v.LinkNamed(params.BVI)
	if rtnl.IgnoreGone(err) != nil {
		return nil, fmt.Errorf("looking up device %s: %w", params.BVI, err)
	}
	return v.domainOf(bridge, virtual), nil
}

// domainOf returns the domain of a bridge whose alias names the device virtual; nil: none.
func (v *Driver) domainOf(bridge, virtual netlink.Link) *domain {
	d := &domain{bridge: bridge, holder: bridge.Attrs().Index}
	d.name, d.params, _ = own.ParseBridgeAlias(bridge.Attrs().Alias)
	if virtual != nil && own.IsLoopbackBridge(virtual) {
		d.virtual = virtual
		v.chooseHolder(d)
	}
	return d
}

func (v *Driver) chooseHolder(d *domain) {
	enabled := d.virtual.Attrs().Flags&net.FlagUp != 0
	if iface := v.Reg.Iface(v.LogicalOf(d.virtual)); iface != nil {
		enabled = iface.GetEnabled()
	}
	d.holder = d.bridge.Attrs().Index
	if enabled {
		d.holder = d.virtual.Attrs().Index
	}
}

// contains reports whether a device with this master is a port of the domain.
func (d *domain) contains(master int) bool {
	return master == d.bridge.Attrs().Index || d.virtual != nil && master == d.virtual.Attrs().Index
}

func (d *domain) portFlags(isolated bool) rtnl.PortFlags {
	p := d.params
	return rtnl.PortFlags{
		Learning: p.Learn, UnicastFlood: p.UnknownUnicastFlood,
		BcastFlood: p.Flood, McastFlood: p.Flood, Isolated: isolated, ProxyARP: d.isSilent(),
	}
}

// isSilent reports whether the loopback has to be kept from flooding frames to the ports.
func (d *domain) isSilent() bool {
	return d.holder != d.bridge.Attrs().Index && !d.params.Flood && !d.params.UnknownUnicastFlood
}

func (v *Driver) bindVirtual(d *domain, loopback netlink.Link) error {
	attrs := loopback.Attrs()
	if d.virtual != nil && d.virtual.Attrs().Index != attrs.Index {
		return vswitch.Unsupported("a second loopback in a bridge domain: %q is its virtual interface", v.LogicalOf(d.virtual))
	}
	if v.isBoundElsewhere(loopback, d.name) {
		return fmt.Errorf("its device %s is in another bridge domain: take it out of that first", attrs.Name)
	}
	if err := v.Net.SetAgeing(attrs.Index, ageingTime(d.params)); err != nil {
		return fmt.Errorf("setting the ageing time of device %s: %w", attrs.Name, err)
	}
	entries, err := v.Fdb(attrs.Index)
	if err != nil {
		return err
	}
	if !hasLocalEntry(entries, loopback) { // the kernel adds it, and another program deleted it
		if err := v.Net.NeighSet(own.LocalEntry(attrs.Index, attrs.HardwareAddr)); err != nil {
			return fmt.Errorf("adding the L2 FIB entry of device %s: %w", attrs.Name, err)
		}
	}
	if err := v.setVirtual(d, attrs.Name); err != nil {
		return err
	}
	d.virtual = loopback
	v.chooseHolder(d)
	return v.gather(d)
}

func (v *Driver) unbindVirtual(d *domain) error {
	d.holder = d.bridge.Attrs().Index
	if err := v.gather(d); err != nil {
		return err
	}
	return v.setVirtual(d, "")
}

func (v *Driver) setVirtual(d *domain, device string) error {
	if d.params.BVI == device {
		return nil
	}
	d.params.BVI = device
	attrs := d.bridge.Attrs()
	if err := v.Net.SetLink(attrs.Index, rtnl.LinkChange{Alias: own.BridgeAlias(d.name, d.params)}); err != nil {
		return fmt.Errorf("setting the alias of bridge %s: %w", attrs.Name, err)
	}
	return nil
}

// isBoundElsewhere reports whether a loopback belongs to another bridge domain.
func (v *Driver) isBoundElsewhere(loopback netlink.Link, bd string) bool {
	return slices.ContainsFunc(own.All[*vpp_l2.BridgeDomain](v.Reg), func(other *vpp_l2.BridgeDomain) bool {
		return other.GetName() != bd && v.Reg.IsBound(v.LogicalOf(loopback), other.GetName())
	})
}

// isLeftIn reports whether a port is still in the loopback of a domain that lost its own bridge.
func (v *Driver) isLeftIn(master int, bd string) bool {
	if master == 0 {
		return false
	}
	link, err := v.Net.LinkByIndex(master)
	return err == nil && own.IsLoopbackBridge(link) && !v.isBoundElsewhere(link, bd)
}

// RestorePorts moves the ports of a bridge domain after its virtual interface was enabled or
// disabled.
func (v *Driver) RestorePorts(iface string) error {
	for _, bd := range own.All[*vpp_l2.BridgeDomain](v.Reg) {
		if !v.Reg.IsBound(iface, bd.GetName()) {
			continue
		}
		d, err := v.domain(bd.GetName())
		if err == nil && d.params.BVI == own.DeviceName(own.DevInterface, iface) {
			err = v.gather(d)
		}
		return rtnl.IgnoreGone(err)
	}
	return nil
}

// gather moves the ports of the domain into the bridge that should hold them.
func (v *Driver) gather(d *domain) error {
	if d.virtual == nil {
		return nil
	}
	ports, err := v.Net.Ports()
	if err != nil {
		return fmt.Errorf("reading bridge ports: %w", err)
	}
	for _, p := range ports {
		if p.Master != d.holder && d.contains(p.Master) {
			p.Flags.ProxyARP = d.isSilent()
			if err := rtnl.IgnoreGone(v.movePort(p, d.holder)); err != nil {
				return err
			}
		}
	}
	return nil
}

// movePort moves a port into another bridge, with the flags and FDB entries that the kernel drops.
func (v *Driver) movePort(p rtnl.Port, into int) error {
	entries, err := v.Fdb(p.Index)
	if err == nil {
		err = v.Net.SetLink(p.Index, rtnl.LinkChange{Master: &into})
	}
	if err == nil {
		err = v.Net.SetPort(p.Index, p.Flags)
	}
	var errs []error
	for _, e := range entries {
		configured := e.State&netlink.NUD_NOARP != 0 || e.Flags&netlink.NTF_EXT_LEARNED != 0
		if err == nil && configured && e.Flags&netlink.NTF_SELF == 0 {
			moved := own.StaticEntry(p.Index, e.HardwareAddr)
			moved.State, moved.Flags = e.State, netlink.NTF_MASTER|e.Flags&netlink.NTF_EXT_LEARNED
			errs = append(errs, v.Net.NeighSet(moved))
		}
	}
	if err := errors.Join(append(errs, err)...); err != nil {
		return fmt.Errorf("moving bridge port %d into bridge %d: %w", p.Index, into, err)
	}
	return nil
}

func hasLocalEntry(entries []netlink.Neigh, bridge netlink.Link) bool {
	attrs := bridge.Attrs()
	return slices.ContainsFunc(entries, func(e netlink.Neigh) bool {
		return e.LinkIndex == attrs.Index && own.IsLocalEntry(e) && e.HardwareAddr.String() == attrs.HardwareAddr.String()
	})
}
