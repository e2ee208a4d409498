package vrf

import (
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// DeviceTo returns the index of the output device for a route into a VRF; 0: a throw route.
func (v *Driver) DeviceTo(vrf uint32) (int, error) {
	if vrf == 0 {
		return 0, nil
	}
	d, err := v.find(vrf)
	return d.index, err
}

// LookupIn returns the options for a route lookup in a VRF.
func (v *Driver) LookupIn(vrf uint32) *netlink.RouteGetOptions {
	return &netlink.RouteGetOptions{Oif: own.VRFDeviceName(vrf)}
}

// Leads holds the VRF devices that routes into other VRFs lead to, by index.
type Leads map[int]device

// Leads reads the VRF devices.
func (v *Driver) Leads() (Leads, error) {
	if !v.UsesVRFs() {
		return nil, nil
	}
	all, err := v.all()
	return all, err
}

// Of returns the VRF that our route leads to, if it is another one.
func (all Leads) Of(r *netlink.Route) (to uint32, leads bool) {
	if r.Type == unix.RTN_THROW {
		return 0, true
	}
	d, ok := all[r.LinkIndex]
	if !ok || r.Type != unix.RTN_UNICAST || len(r.MultiPath) > 0 {
		return 0, false
	}
	return d.vrf, true
}
