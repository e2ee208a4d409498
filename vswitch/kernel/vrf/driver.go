package vrf

import (
	"errors"

	"github.com/contiv/contiv/netlink/rtnl"
	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/kernel/drift"
	"github.com/contiv/contiv/vswitch/kernel/own"
	"github.com/vishvananda/netlink"
)

// Driver is the VRFs of one network namespace.
type Driver struct {
	*own.Host
	way
}

// Options of a Driver.
type Options struct {
	// Interfaces restores what a device loses when it enters or leaves a VRF device.
	Interfaces Interfaces
	// RulesOnly is for tests: VRF devices are not used even if the kernel has them.
	RulesOnly bool
}

// Interfaces are those whose devices are in VRFs.
type Interfaces interface {
	// RestoreInterface restores the addresses, routes and neighbours of a device that went down and up again.
	RestoreInterface(iface string, index int) error
}

// way is how a kernel does VRFs: by VRF devices, or by policy rules that emulate them.
type way interface {
	drift.Subsystem
	VRFPort() vswitch.VRFs
	// UsesVRFs reports whether there may be a VRF other than 0. If not, nothing is read or changed.
	UsesVRFs() bool
	// HasTable reports whether the table of a VRF exists.
	HasTable(family int, vrf uint32) bool
	// Drop removes all VRFs.
	Drop() error

	// IsolateAs keeps packets of an interface that belongs to another VRF out of VRF 0: before it has
	// an address, and for IP versions of which it has none. It is called before the device is made,
	// and again before it is set up.
	IsolateAs(iface string) error
	// MoveTo moves an interface into a VRF for each IP version.
	MoveTo(iface string, vrfs map[int]uint32) error
	// VRFsOf returns the VRFs of an interface by IP version.
	VRFsOf(iface string) (map[int]uint32, error)
	// ForgetVRFs is called before an interface goes, with the name of its device.
	ForgetVRFs(device string) error
	// Sweep is called after it went.
	Sweep() error
	// ViewVRFs reads what interfaces are listed from.
	ViewVRFs() (View, error)

	// Confined returns the VRF that we have to keep the addresses of a device in; 0 if the kernel does.
	Confined(index, family int) (uint32, error)
	// ConfineNew removes from VRF 0 what the kernel adds for a new address of such a device.
	ConfineNew(rtnl.Address) error
	// SettleAddresses makes the routes of the addresses of a device those that they need in its VRF.
	SettleAddresses(index, family int) error
	// RestoreVRF does so after the device was down.
	RestoreVRF(index int) error

	// LeadAway prepares a route from one VRF into another one; LeadBack is called when it is gone.
	LeadAway(route InterRoute, to uint32) error
	LeadBack(route InterRoute) error
	// DeviceTo returns the index of the device that a route into a VRF has; 0: none, it is a throw route.
	DeviceTo(vrf uint32) (index int, err error)
	// Leads reads where routes into other VRFs lead.
	Leads() (Leads, error)
	// LookupIn returns how to ask the kernel for a route in a VRF.
	LookupIn(vrf uint32) *netlink.RouteGetOptions
}

// View is the state of VRFs when interfaces are listed.
type View interface {
	// Of returns the VRF that a device is meant for; 0 if VRF 0 may get its packets. wanted is the
	// VRF of its value.
	Of(device string, wanted uint32) uint32
	// Intact reports whether an address of a device is in the VRF that the device is meant for.
	Intact(link netlink.Link, a rtnl.Address) bool
	// Together reports whether two devices are in the same VRFs.
	Together(device, lender string) bool
	// Leaks reports whether an address of ours, of a device in a VRF, is one of VRF 0 as well.
	Leaks(link netlink.Link, a rtnl.Address) bool
}

// Leads are the routes into other VRFs.
type Leads interface {
	// Of returns the VRF that a route of ours in a VRF leads to, if it leads to another one. It is
	// not intact if packets do not get there.
	Of(r *netlink.Route, vrf uint32) (to uint32, leads, intact bool)
	// Rest returns what has no route that Of was asked about.
	Rest() map[InterRoute]uint32
}

// New asks the kernel whether it has VRF devices, finds out what an earlier process left, and
// changes nothing.
func New(host *own.Host, opts Options) (*Driver, error) {
	v := &Driver{Host: host}
	has, err := host.Net.HasVRFDevices()
	if err != nil {
		return nil, err
	}
	if has && !opts.RulesOnly {
		v.way, err = openDevices(host, opts.Interfaces)
	} else {
		v.way, err = openEmulation(host)
	}
	return v, err
}

// JoinVRFs moves an interface that borrows addresses into the VRFs of its lender.
func (v *Driver) JoinVRFs(iface, lender string) error {
	if !v.UsesVRFs() {
		return nil
	}
	vrfs, err := v.VRFsOf(lender)
	if err != nil {
		return err
	}
	return v.MoveTo(iface, vrfs)
}

// MoveBorrowers makes those that borrow the addresses of an interface follow it.
func (v *Driver) MoveBorrowers(lender string) error {
	if !v.UsesVRFs() {
		return nil
	}
	var errs []error
	for _, borrower := range v.Borrowers(lender) {
		errs = append(errs, rtnl.IgnoreGone(v.JoinVRFs(borrower, lender)))
	}
	return errors.Join(errs...)
}

// DeviceOf returns the name of the device of an interface, which may not exist (yet).
func (v *Driver) DeviceOf(iface string) string { return deviceOf(v.Host, iface) }

func deviceOf(host *own.Host, iface string) string {
	if link, err := host.Link(iface); err == nil {
		return link.Attrs().Name
	}
	return own.DeviceName(own.DevInterface, iface)
}
