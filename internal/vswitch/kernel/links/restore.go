package links

import (
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"
)

// The kernel removes objects together that are independent values in the model:
//
//	a device that goes down       loses its routes, neighbours and IPv6 addresses
//	the last IPv4 address removed removes the IPv4 routes and neighbours
//	a MAC that changes            removes the neighbours
//
// After such a change, the driver restores the objects that are still configured.

func (v *Driver) restore(iface string, index int) error {
	return errors.Join(v.restoreAddresses(iface, index), v.vrf.RestoreVRF(index), v.neighbours.RestoreNeighbours(iface, index), v.routes.RestoreRoutes(iface, index), v.routes.ResolveRoutes(), v.segments.RestoreSegments(iface),
		v.neighbours.RestoreProxyARP(iface, index), v.routes.RestoreL3XConnects(iface))
}

// RestoreInterface is restore, for VRFs.
func (v *Driver) RestoreInterface(iface string, index int) error { return v.restore(iface, index) }

// restoreAddresses restores the IPv6 addresses. IPv4 addresses survive.
func (v *Driver) restoreAddresses(iface string, index int) error {
	addrs, borrows := v.Reg.Assigned(iface)
	var errs []error
	for addr := range addrs {
		if addr.Addr().Is6() {
			errs = append(errs, v.addOwnAddress(iface, index, addr))
		}
	}
	if borrows {
		if lent, err := v.ownAddresses(v.Reg.Iface(iface).GetUnnumbered().GetInterfaceWithIp()); err == nil {
			errs = append(errs, v.setBorrowed(index, lent))
		}
	}
	return errors.Join(errs...)
}

func (v *Driver) afterAddressRemoval(iface string, index int, removed netip.Addr) error {
	if !removed.Is4() || len(v.Reg.KeysOf(iface)) <= 1 {
		return nil // only the interface
	}
	addrs, err := v.Net.Addresses(index)
	if err != nil {
		return err
	}
	for _, a := range addrs {
		if a.Prefix.Addr().Is4() {
			return nil
		}
	}
	err = errors.Join(v.neighbours.RestoreNeighbours(iface, index), v.routes.RestoreRoutes(iface, index), v.segments.RestoreSegments(iface))
	if errors.Is(err, unix.ENETDOWN) {
		return nil // impossible while the device is down
	}
	return err
}
