package links

import (
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"
)

// The kernel ties things together that are independent values in the model:
//
//	a device that goes down       takes its routes, neighbours and IPv6 addresses along
//	the last IPv4 address removed takes the IPv4 routes and neighbours along
//	a MAC that changes            takes the neighbours along
//
// After a change of ours of this kind, objects that are still configured are restored.

// restore puts back routes, neighbours and addresses of an interface, as far as
// they exist according to the registry.
func (v *Driver) restore(iface string, index int) error {
	return errors.Join(v.restoreAddresses(iface, index), v.vrf.RestoreVRF(index), v.neighbours.RestoreNeighbours(iface, index), v.routes.RestoreRoutes(iface, index), v.routes.ResolveRoutes(), v.segments.RestoreSegments(iface),
		v.neighbours.RestoreProxyARP(iface, index), v.routes.RestoreL3XConnects(iface))
}

// RestoreInterface is restore, for VRFs.
func (v *Driver) RestoreInterface(iface string, index int) error { return v.restore(iface, index) }

// restoreAddresses puts back the IPv6 addresses; those of IPv4 survive.
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

// afterAddressRemoval restores objects that went with the last IPv4 address.
func (v *Driver) afterAddressRemoval(iface string, index int, removed netip.Addr) error {
	if !removed.Is4() || len(v.Reg.KeysOf(iface)) <= 1 {
		return nil // nothing but the interface
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
		return nil // nothing can be restored while the device is down
	}
	return err
}
