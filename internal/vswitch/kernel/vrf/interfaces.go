package vrf

import (
	"errors"
	"fmt"
	"net"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// IsolateAs keeps packets of an interface in another VRF out of VRF 0, even before it has an address
// and for IP versions without one: the interface is in its VRF device for all its life. IsolateAs is
// called before the device is created, and again before it is set up.
func (v *Driver) IsolateAs(iface string) error {
	value := v.Reg.Iface(iface)
	switch vrf := value.GetVrf(); {
	case vrf != 0:
		return v.enslave(iface, vrf)
	case !v.UsesVRFs() || value.GetUnnumbered() != nil:
		return nil // an unnumbered interface follows its lender
	}
	return v.release(iface)
}

// MoveTo moves an interface into a VRF for each IP version. A VRF device takes both.
func (v *Driver) MoveTo(iface string, vrfs map[int]uint32) error {
	into := v.Reg.Iface(iface).GetVrf() // without a VRF, the interface stays in its own one, out of VRF 0
	for family, vrf := range vrfs {
		if vrf == 0 {
			continue
		}
		if !v.HasTable(family, vrf) {
			return fmt.Errorf("table %d of VRF %d does not exist", own.TableOf(vrf), vrf)
		}
		if _, err := v.Link(iface); err != nil {
			return err
		}
		into = vrf
	}
	switch {
	case into != 0:
		return v.enslave(iface, into)
	case !v.UsesVRFs():
		return nil
	}
	return v.release(iface)
}

// VRFsOf returns the VRF of an interface for each IP version. A VRF without a table for an IP version
// does not route it.
func (v *Driver) VRFsOf(iface string) (map[int]uint32, error) {
	vrfs := map[int]uint32{unix.AF_INET: 0, unix.AF_INET6: 0}
	if !v.UsesVRFs() {
		return vrfs, nil
	}
	link, err := v.Link(iface)
	if err != nil {
		return vrfs, rtnl.IgnoreGone(err)
	}
	d, ok, err := v.masterOf(link)
	if guest := v.guestOf(link); guest != 0 {
		d, err = v.find(guest)
		ok = err == nil
		err = rtnl.IgnoreGone(err)
	}
	if err != nil || !ok {
		return vrfs, err
	}
	for family := range vrfs {
		if d.has(family) {
			vrfs[family] = d.vrf
		}
	}
	return vrfs, nil
}

func (v *Driver) masterOf(link netlink.Link) (d device, ok bool, err error) {
	if link.Attrs().MasterIndex == 0 {
		return d, false, nil
	}
	master, err := v.Net.LinkByIndex(link.Attrs().MasterIndex)
	if err != nil {
		return d, false, rtnl.IgnoreGone(err)
	}
	d, ok = asDevice(master)
	return d, ok, nil
}

// enslave puts the device of an interface, if it exists, into the device of a VRF, which it creates
// if necessary. Ports of bridges and bonds stay, because their packets are not routed.
func (v *Driver) enslave(iface string, vrf uint32) error {
	link, err := v.linkOf(iface)
	if err != nil && !rtnl.IsGone(err) {
		return err
	}
	if err := noCrossConnect(v.Host, iface); err != nil && link != nil {
		return err
	}
	into, err := v.ensure(vrf, 0)
	if err != nil || link == nil {
		return err
	}
	if occupied, err := v.occupied(iface, link); err != nil {
		return err
	} else if occupied {
		return errors.Join(v.admit(iface, link, vrf), v.Sweep())
	}
	attrs := link.Attrs()
	if attrs.MasterIndex == into.index {
		return v.dismiss(link)
	}
	if _, ok, err := v.masterOf(link); err != nil || !ok && attrs.MasterIndex != 0 {
		return err
	}
	if err := v.setMaster(iface, link, into.index); err != nil {
		return fmt.Errorf("putting device %s into VRF device %s: %w", attrs.Name, own.VRFDeviceName(vrf), err)
	}
	return errors.Join(v.dismiss(link), v.Sweep())
}

func (v *Driver) release(iface string) error {
	link, err := v.linkOf(iface)
	if err != nil {
		return rtnl.IgnoreGone(err)
	}
	_, ok, err := v.masterOf(link)
	if err == nil && ok {
		if err = v.setMaster(iface, link, 0); err != nil {
			return fmt.Errorf("taking device %s out of its VRF device: %w", link.Attrs().Name, err)
		}
	}
	return errors.Join(err, v.dismiss(link), v.Sweep())
}

// setMaster restores the objects that a device loses: the kernel sets it down and up again when its
// VRF device changes.
func (v *Driver) setMaster(iface string, link netlink.Link, master int) error {
	attrs := link.Attrs()
	if err := v.Net.SetLink(attrs.Index, rtnl.LinkChange{Master: &master}); err != nil {
		return err
	}
	if attrs.Flags&net.FlagUp == 0 || own.IsUnmarked(link) {
		return nil
	}
	return v.interfaces.RestoreInterface(iface, attrs.Index)
}

// linkOf also finds a device under creation.
func (v *Driver) linkOf(iface string) (netlink.Link, error) {
	link, err := v.Link(iface)
	if err == nil || !rtnl.IsGone(err) {
		return link, err
	}
	link, err = v.LinkNamed(own.DeviceName(own.DevInterface, iface))
	if err == nil && !own.IsUnmarked(link) {
		err = rtnl.ErrNoDevice
	}
	if err != nil {
		return nil, err
	}
	return link, nil
}

func noCrossConnect(host *own.Host, iface string) error {
	for _, key := range host.Reg.KeysOf(iface) {
		value, _ := host.Reg.Get(key)
		if x, ok := value.(*vpp_l3.L3XConnect); ok && x.GetInterface() == iface {
			return own.CrossConnectInVRF()
		}
	}
	return nil
}

// occupied reports whether a foreign device has foreign addresses or routes, which the kernel would
// move out of VRF 0 or delete.
func (v *Driver) occupied(iface string, link netlink.Link) (bool, error) {
	if _, ok, err := v.masterOf(link); err != nil || ok || own.IsOurs(link) {
		return false, err
	}
	index := link.Attrs().Index
	addrs, err := v.Net.Addresses(index)
	if err != nil {
		return false, err
	}
	for _, a := range addrs {
		if !isMark(int(a.Proto)) && !a.Prefix.Addr().IsLinkLocalUnicast() {
			return true, nil
		}
	}
	for _, family := range ipFamilies {
		found, err := v.Net.Routes(family, &netlink.Route{LinkIndex: index}, netlink.RT_FILTER_OIF|netlink.RT_FILTER_TABLE)
		if err != nil {
			return false, fmt.Errorf("reading routes: %w", err)
		}
		for _, r := range found {
			if r.LinkIndex == index && r.Protocol != unix.RTPROT_KERNEL && !isMark(int(r.Protocol)) {
				return true, nil
			}
		}
	}
	return false, nil
}

// isMark reports whether we mark addresses or routes with the protocol.
func isMark(protocol int) bool { return protocol >= own.ProtoOurs && protocol <= protoLinux }

const protoLinux = 126

// ForgetVRFs is called before an interface is deleted, with the name of its device. Our own devices
// are deleted with all their state; others leave their VRF device.
func (v *Driver) ForgetVRFs(device string) error {
	if !v.UsesVRFs() {
		return nil
	}
	link, err := v.LinkNamed(device)
	if err == nil && !own.IsOurs(link) {
		var ok bool
		if _, ok, err = v.masterOf(link); err == nil && ok {
			none := 0
			err = v.Net.SetLink(link.Attrs().Index, rtnl.LinkChange{Master: &none})
		}
		err = errors.Join(err, v.dismiss(link))
	}
	return rtnl.IgnoreGone(err)
}

func (v *Driver) isWanted(vrf uint32) bool { return vrf != 0 && wantedVRFs(v.Host)[vrf] }

// SettleAddresses sets the routes of a device's addresses as its VRF requires. It reassigns addresses
// of a former guest, which lack the kernel's routes.
func (v *Driver) SettleAddresses(index, family int) error {
	if !v.UsesVRFs() {
		return nil
	}
	switch vrf, err := v.Confined(index, family); {
	case err != nil:
		return err
	case vrf != 0:
		return v.rules.settle(index, family, vrf)
	}
	routes, err := placed(v.Net, family, index, 0, own.ProtoVRF)
	if err != nil {
		return err
	}
	addrs, err := v.Net.Addresses(index)
	if err != nil {
		return err
	}
	for _, r := range routes {
		if err := rtnl.IgnoreGone(delPlaced(v.Net, r)); err != nil {
			return fmt.Errorf("deleting the route to %s from the table of the VRF: %w", r.dst, err)
		}
	}
	again := false
	for _, a := range addrs {
		if a.Proto != own.ProtoOurs || a.Family() != family || a.Flags&unix.IFA_F_NOPREFIXROUTE == 0 {
			continue
		}
		if err := v.rules.flagAddress(a, 0); err != nil {
			return err
		}
		again = true
	}
	if iface, ok := v.Dev.Name(index); ok && again {
		return v.interfaces.RestoreInterface(iface, index) // objects lost with the address
	}
	return nil
}
