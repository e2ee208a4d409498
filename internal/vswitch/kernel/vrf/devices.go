package vrf

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// UsesVRFs reports whether a VRF other than 0 may exist. If not, nothing is read or changed.
func (v *Driver) UsesVRFs() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.used
}

type device struct {
	vrf      uint32
	index    int
	up       bool
	versions vswitch.IPVersions
}

func (d device) has(family int) bool {
	return family == unix.AF_INET && d.versions.V4 || family == unix.AF_INET6 && d.versions.V6
}

func asDevice(link netlink.Link) (d device, ok bool) {
	vrf, isVRF := link.(*netlink.Vrf)
	id, versions, ours := own.ParseVRFAlias(link.Attrs().Alias)
	if !isVRF || !ours || vrf.Table != own.TableOf(id) {
		return d, false
	}
	return device{vrf: id, index: vrf.Index, up: vrf.RawFlags&unix.IFF_UP != 0, versions: versions}, true
}

func (v *Driver) all() (map[int]device, error) {
	devs, err := v.Devices()
	if err != nil {
		return nil, err
	}
	return devicesIn(devs), nil
}

func devicesIn(devs *own.Devices) map[int]device {
	all := map[int]device{}
	for index, link := range devs.ByIndex {
		if d, ok := asDevice(link); ok {
			all[index] = d
		}
	}
	return all
}

// find returns the device of a VRF. If it does not exist, rtnl.IsGone is true for the error.
func (v *Driver) find(vrf uint32) (device, error) {
	link, err := v.LinkNamed(own.VRFDeviceName(vrf))
	if err != nil {
		return device{}, err
	}
	d, ok := asDevice(link)
	if !ok || d.vrf != vrf {
		return device{}, rtnl.ErrNoDevice
	}
	return d, nil
}

// ensure creates the device of a VRF if it is missing, with everything that separates it from VRF
// 0. It adds the table for the IP version; family 0 keeps the present tables.
func (v *Driver) ensure(vrf uint32, family int) (device, error) {
	if !v.available {
		return device{}, vswitch.Unsupported("VRF %d: the Linux kernel of this node has no VRF devices: load the module vrf, "+
			"or use a kernel with the option CONFIG_NET_VRF", vrf)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.used = true
	for _, f := range ipFamilies {
		err := v.rules.edit(f, func(s *ruleState) { s.devices = true })
		if f == unix.AF_INET6 && f != family {
			err = ignoreUnsupported(err)
		}
		if err != nil {
			return device{}, err
		}
	}
	d, err := v.find(vrf)
	if rtnl.IsGone(err) {
		d, err = v.add(vrf)
	}
	if err != nil {
		return d, err
	}
	for _, f := range ipFamilies {
		if err := v.addEnd(vrf, f); err != nil {
			return d, err
		}
	}
	versions := d.versions
	versions.V4 = versions.V4 || family == unix.AF_INET
	versions.V6 = versions.V6 || family == unix.AF_INET6
	if versions != d.versions || !d.up {
		if err := v.Net.SetLink(d.index, rtnl.LinkChange{Alias: own.VRFAlias(vrf, versions), Up: true}); err != nil {
			return d, fmt.Errorf("preparing device %s: %w", own.VRFDeviceName(vrf), err)
		}
		d.versions, d.up = versions, true
	}
	return d, nil
}

func (v *Driver) add(vrf uint32) (device, error) {
	name, alias := own.VRFDeviceName(vrf), own.VRFAlias(vrf, vswitch.IPVersions{})
	// Sockets bound to any address accept connections from VRFs.
	if err := v.NS.Run(func() error { return namespace.EnsureSysctl("ipv4/tcp_l3mdev_accept", "1") }); err != nil {
		return device{}, err
	}
	link := rtnl.NewLink{Name: name, Kind: "vrf", Group: own.DeviceGroup,
		Options: []rtnl.LinkOption{{Attr: nl.IFLA_VRF_TABLE, Value: nl.Uint32Attr(own.TableOf(vrf))}}}
	err := v.Net.AddLink(link)
	if rtnl.Exists(err) {
		if _, err := v.Clear(name, alias, name); err != nil {
			return device{}, err
		}
		err = v.Net.AddLink(link)
	}
	if err == nil {
		err = v.Net.SetLinkNamed(name, rtnl.LinkChange{Alias: alias})
	}
	if err != nil {
		return device{}, fmt.Errorf("adding VRF device %s: %w", name, err)
	}
	return v.find(vrf)
}

// lowest is the metric of the last route in a VRF's table. The kernel's documentation proposes it,
// and routing protocols treat it as the worst.
const lowest = 4278198272

func endOf(vrf uint32, family int) *netlink.Route {
	all := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if family == unix.AF_INET6 {
		all = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return &netlink.Route{Family: family, Table: int(own.TableOf(vrf)), Dst: own.IPNet(all), Type: unix.RTN_UNREACHABLE, Priority: lowest, Protocol: own.ProtoVRF}
}

func (v *Driver) addEnd(vrf uint32, family int) error {
	err := v.Net.RouteAdd(endOf(vrf, family))
	if rtnl.Exists(err) || family == unix.AF_INET6 && (errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT)) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("adding the unreachable default route of VRF %d: %w", vrf, err)
	}
	return nil
}

func (v *Driver) ends(family int) (map[uint32]bool, error) {
	found, err := v.Net.Routes(family, &netlink.Route{Protocol: own.ProtoVRF}, netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
	if err != nil {
		return nil, fmt.Errorf("reading the unreachable default routes of VRFs: %w", err)
	}
	ends := map[uint32]bool{}
	for _, r := range found {
		if vrf, ok := own.VRFOfTable(uint32(r.Table)); ok && r.Type == unix.RTN_UNREACHABLE && own.Destination(&r).Bits() == 0 {
			ends[vrf] = true
		}
	}
	return ends, nil
}

// Sweep removes unneeded VRF devices, and the rules with the last one.
func (v *Driver) Sweep() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.used {
		return nil
	}
	devs, err := v.Devices()
	if err != nil {
		return err
	}
	all := devicesIn(devs)
	needed := map[uint32]bool{}
	for _, link := range devs.ByIndex {
		if d, ok := all[link.Attrs().MasterIndex]; ok {
			needed[d.vrf] = true
		}
	}
	left := false
	for _, d := range all {
		if needed[d.vrf] || d.versions != (vswitch.IPVersions{}) || v.isWanted(d.vrf) {
			left = true
			continue
		}
		if err := v.remove(d); err != nil {
			return err
		}
	}
	if left {
		return nil
	}
	return v.dropRules()
}

func (v *Driver) remove(d device) error {
	if err := rtnl.IgnoreGone(v.DelLink(d.index)); err != nil {
		return fmt.Errorf("removing VRF device %s: %w", own.VRFDeviceName(d.vrf), err)
	}
	for _, f := range ipFamilies {
		err := rtnl.IgnoreGone(v.Net.RouteDel(endOf(d.vrf, f)))
		if err != nil && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EAFNOSUPPORT) {
			return fmt.Errorf("removing the unreachable default route of VRF %d: %w", d.vrf, err)
		}
	}
	return nil
}

// dropRules removes our rule for VRF devices. It keeps the rules of guests.
func (v *Driver) dropRules() error {
	for _, f := range ipFamilies {
		err := v.rules.edit(f, func(s *ruleState) { s.devices = false })
		if err != nil {
			return err
		}
	}
	v.used = v.rules.stand()
	return nil
}

// Drop removes all VRF devices and rules. Their ports move to VRF 0.
func (v *Driver) Drop() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	all, err := v.all()
	errs := []error{err}
	for _, d := range all {
		errs = append(errs, v.remove(d))
	}
	v.used = false
	return errors.Join(append(errs, v.rules.drop())...)
}
