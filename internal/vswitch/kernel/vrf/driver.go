package vrf

import (
	"errors"
	"sync"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
)

// Driver implements the VRFs of one network namespace.
type Driver struct {
	*own.Host
	interfaces Interfaces
	rules      *rules
	available  bool // the kernel has VRF devices

	mu   sync.Mutex
	used bool // VRF devices or rules exist; if not, nothing needs to be read
}

// Interfaces is the part of the interface driver that VRFs need.
type Interfaces interface {
	// RestoreInterface restores the addresses, routes and neighbours of a device that went down and
	// up again.
	RestoreInterface(iface string, index int) error
}

// New detects VRF devices, reads the state left by an earlier process, and removes the remains of
// versions that emulated VRFs. interfaces restores the objects that a device loses when it enters or
// leaves a VRF device.
func New(host *own.Host, interfaces Interfaces) (*Driver, error) {
	available, err := host.Net.HasVRFDevices()
	if err != nil {
		return nil, err
	}
	rules, err := openRules(host)
	if err != nil {
		return nil, err
	}
	if err := rules.removeEmulation(); err != nil {
		return nil, err
	}
	v := &Driver{Host: host, interfaces: interfaces, rules: rules, available: available}
	all, err := v.all()
	v.used = len(all) > 0 || rules.stand()
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
