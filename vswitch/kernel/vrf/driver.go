package vrf

import (
	"errors"

	"github.com/contiv/contiv/netlink/rtnl"
	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/kernel/drift"
	"github.com/contiv/contiv/vswitch/kernel/own"
	"github.com/vishvananda/netlink"
)

// Driver implements the VRFs of one network namespace.
type Driver struct {
	*own.Host
	way
}

// Options configures a Driver.
type Options struct {
	// Interfaces restores the objects that a device loses when it enters or leaves a VRF device.
	Interfaces Interfaces
	// RulesOnly disables VRF devices. For tests.
	RulesOnly bool
}

// Interfaces is the part of the interface driver that VRFs need.
type Interfaces interface {
	// RestoreInterface restores the addresses, routes and neighbours of a device that went down and
	// up again.
	RestoreInterface(iface string, index int) error
}

type way interface {
	drift.Subsystem
	VRFPort() vswitch.VRFs
	// UsesVRFs reports whether a VRF other than 0 may exist. If not, nothing is read or changed.
	UsesVRFs() bool
	// HasTable reports whether the table of a VRF exists.
	HasTable(family int, vrf uint32) bool
	Drop() error

	// IsolateAs keeps packets of an interface in another VRF out of VRF 0, even before it has an
	// address and for IP versions without one. It is called before the device is created, and again
	// before it is set up.
	IsolateAs(iface string) error
	// MoveTo moves an interface into a VRF for each IP version.
	MoveTo(iface string, vrfs map[int]uint32) error
	VRFsOf(iface string) (map[int]uint32, error)
	// ForgetVRFs is called before an interface is deleted, with the name of its device.
	ForgetVRFs(device string) error
	// Sweep is called after the deletion.
	Sweep() error
	// ViewVRFs reads the state for listing interfaces.
	ViewVRFs() (View, error)

	// Confined returns the VRF in which the driver must keep a device's addresses; 0 if the kernel
	// does.
	Confined(index, family int) (uint32, error)
	// ConfineNew removes the routes that the kernel adds to VRF 0 for a new address of such a
	// device.
	ConfineNew(rtnl.Address) error
	// SettleAddresses sets the routes of a device's addresses as its VRF requires.
	SettleAddresses(index, family int) error
	// RestoreVRF does the same after the device was down.
	RestoreVRF(index int) error

	// LeadAway prepares a route from one VRF into another. LeadBack is called after its removal.
	LeadAway(route InterRoute, to uint32) error
	LeadBack(route InterRoute) error
	// DeviceTo returns the index of the output device for a route into a VRF; 0: a throw route.
	DeviceTo(vrf uint32) (index int, err error)
	// Leads reads the targets of routes into other VRFs.
	Leads() (Leads, error)
	// LookupIn returns the options for a route lookup in a VRF.
	LookupIn(vrf uint32) *netlink.RouteGetOptions
}

// View is the state of VRFs for listing interfaces.
type View interface {
	// Of returns the VRF that a device is meant for; 0 if VRF 0 may get its packets. wanted is the
	// VRF of its value.
	Of(device string, wanted uint32) uint32
	// Intact reports whether an address is in the VRF that its device is meant for.
	Intact(link netlink.Link, a rtnl.Address) bool
	Together(device, lender string) bool
	// Leaks reports whether our address of a device in a VRF is in VRF 0, too.
	Leaks(link netlink.Link, a rtnl.Address) bool
}

// Leads holds the routes into other VRFs.
type Leads interface {
	// Of returns the VRF that our route in a VRF leads to, if it is another one. intact is false if
	// packets do not get there.
	Of(r *netlink.Route, vrf uint32) (to uint32, leads, intact bool)
	// Rest returns the remaining entries, without a route that Of was called for.
	Rest() map[InterRoute]uint32
}

// New detects VRF devices and reads the state left by an earlier process. It changes nothing.
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

// MoveBorrowers moves the borrowers of an interface's addresses to its VRFs.
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

// DeviceOf returns the name of an interface's device, which may not exist (yet).
func (v *Driver) DeviceOf(iface string) string { return deviceOf(v.Host, iface) }

func deviceOf(host *own.Host, iface string) string {
	if link, err := host.Link(iface); err == nil {
		return link.Attrs().Name
	}
	return own.DeviceName(own.DevInterface, iface)
}
