package vrf

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/contiv/contiv/netlink/namespace"
	"github.com/contiv/contiv/netlink/rtnl"
	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/kernel/own"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// devices is VRFs by VRF devices. VRF 5:
//
//	cvrf5        a device of the kind vrf with table 121000005; its alias says for which IP
//	             versions the table exists: contiv:vpp-vrf[v4,v6]/5
//	c-tap1       is enslaved to it; the kernel then keeps its addresses and their routes in the table
//	table        unreachable default, of the lowest preference: the end for what the VRF does not know
//
// and for all of them two policy rules, of each IP version:
//
//	90           lookup [l3mdev-table]
//	100          lookup local                     was the first one (0)
//
// The table local comes after those of VRFs, as in the kernel's own tests of VRFs: if it comes first,
// packets in a VRF end at the node if VRF 0 has their destination. The kernel makes a rule for
// VRF devices itself, at 1000, with the first one of a network namespace and never again. It stays, for
// VRF devices of others. With our own one in front, the table local is early enough for rules of others
// between 100 and 1000 to come after it, as they did before.
//
// A route of type INTER_VRF leads to the VRF device, which looks the packet up in its own table. Into
// VRF 0, which has no device, it is a throw route: the rules after ours are those of VRF 0.
//
// A VRF device exists while its VRF has a table, or an interface that is to be in it.
type devices struct {
	*own.Host
	interfaces Interfaces
	// rules are the policy rules, and what an earlier version left: it emulated VRFs.
	rules *emulation

	mu   sync.Mutex // held while VRF devices are made, changed or removed
	used bool       // there are some, or rules; if not, nothing needs to be read
}

// openDevices finds out what an earlier process left, and changes nothing.
func openDevices(host *own.Host, interfaces Interfaces) (*devices, error) {
	rules, err := openEmulation(host)
	if err != nil {
		return nil, err
	}
	v := &devices{Host: host, interfaces: interfaces, rules: rules}
	all, err := v.all()
	v.used = len(all) > 0 || rules.UsesVRFs()
	return v, err
}

func (v *devices) UsesVRFs() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.used
}

// device is a VRF device of ours.
type device struct {
	vrf      uint32
	index    int
	up       bool
	versions vswitch.IPVersions // for which the table exists
}

func (d device) has(family int) bool {
	return family == unix.AF_INET && d.versions.V4 || family == unix.AF_INET6 && d.versions.V6
}

// asDevice returns false for what is none of ours.
func asDevice(link netlink.Link) (d device, ok bool) {
	vrf, isVRF := link.(*netlink.Vrf)
	id, versions, ours := own.ParseVRFAlias(link.Attrs().Alias)
	if !isVRF || !ours || vrf.Table != own.TableOf(id) {
		return d, false
	}
	return device{vrf: id, index: vrf.Index, up: vrf.RawFlags&unix.IFF_UP != 0, versions: versions}, true
}

// all returns the VRF devices by index.
func (v *devices) all() (map[int]device, error) {
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

// find returns the device of a VRF; an error for which rtnl.IsGone is true if there is none.
func (v *devices) find(vrf uint32) (device, error) {
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

// ensure makes the device of a VRF, if there is none, with all that keeps it apart from VRF 0. The table
// then also exists for the IP version; 0: for those that it exists for now.
func (v *devices) ensure(vrf uint32, family int) (device, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.used = true
	for _, f := range ipFamilies {
		err := v.rules.editVRFs(f, func(s *ruleState) error { s.devices = true; return nil })
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
	return d, v.convertLeads(vrf)
}

// add makes the device of a VRF, down and without an alias for any IP version.
func (v *devices) add(vrf uint32) (device, error) {
	name, alias := own.VRFDeviceName(vrf), own.VRFAlias(vrf, vswitch.IPVersions{})
	// What listens on any address is reached from VRFs, too, as it is where VRFs are emulated.
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

// lowest is the metric of the routes that end a VRF's table: the one that the documentation of
// the kernel proposes, which routing protocols take for the worst.
const lowest = 4278198272

func endOf(vrf uint32, family int) *netlink.Route {
	all := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if family == unix.AF_INET6 {
		all = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return &netlink.Route{Family: family, Table: int(own.TableOf(vrf)), Dst: own.IPNet(all), Type: unix.RTN_UNREACHABLE, Priority: lowest, Protocol: own.ProtoVRF}
}

// addEnd keeps what a VRF has no route for from being looked for in VRF 0.
func (v *devices) addEnd(vrf uint32, family int) error {
	err := v.Net.RouteAdd(endOf(vrf, family))
	if rtnl.Exists(err) || family == unix.AF_INET6 && (errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT)) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("adding the unreachable default route of VRF %d: %w", vrf, err)
	}
	return nil
}

// ends returns the VRFs whose tables have such a route.
func (v *devices) ends(family int) (map[uint32]bool, error) {
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

// Sweep removes the VRF devices that are not needed any more, and the rules with the last one.
func (v *devices) Sweep() error {
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

func (v *devices) remove(d device) error {
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

// dropRules removes our rule for VRF devices. What an earlier version left stays until it is
// replaced or removed.
func (v *devices) dropRules() error {
	for _, f := range ipFamilies {
		err := v.rules.editVRFs(f, func(s *ruleState) error { s.devices = false; return nil })
		if err != nil {
			return err
		}
	}
	v.used = v.rules.stands()
	return nil
}

// Drop removes all VRF devices and rules. The devices in them come into VRF 0.
func (v *devices) Drop() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	all, err := v.all()
	errs := []error{err}
	for _, d := range all {
		errs = append(errs, v.remove(d))
	}
	v.used = false
	return errors.Join(append(errs, v.rules.Drop())...)
}
