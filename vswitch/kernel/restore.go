package kernel

import (
	"errors"
	"net/netip"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"golang.org/x/sys/unix"
)

// The kernel ties things together that are independent values in the model:
//
//	a device that goes down       takes its routes, neighbours and IPv6 addresses along
//	the last IPv4 address removed takes the IPv4 routes and neighbours along
//	a MAC that changes            takes the neighbours along
//
// After we have done one of these, what is still configured is put back.

// restore puts back routes, neighbours and addresses of an interface, as far as
// they exist according to the registry.
func (v *VSwitch) restore(iface string, index int) error {
	return errors.Join(v.restoreAddresses(iface, index), v.restoreVRF(index), v.restoreNeighbours(iface, index), v.restoreRoutes(iface, index), v.resolveRoutes(),
		v.restoreProxyARP(iface, index), v.restoreL3XConnects(iface))
}

// restoreAddresses puts back the IPv6 addresses; those of IPv4 survive.
func (v *VSwitch) restoreAddresses(iface string, index int) error {
	addrs, borrows := v.reg.assigned(iface)
	var errs []error
	for addr := range addrs {
		if addr.Addr().Is6() {
			errs = append(errs, v.addOwnAddress(iface, index, addr))
		}
	}
	if borrows {
		if lent, err := v.ownAddresses(v.reg.iface(iface).GetUnnumbered().GetInterfaceWithIp()); err == nil {
			errs = append(errs, v.setBorrowed(index, lent))
		}
	}
	return errors.Join(errs...)
}

func (v *VSwitch) restoreNeighbours(iface string, index int) error {
	var errs []error
	for _, key := range v.reg.keysOf(iface) {
		value, _ := v.reg.get(key)
		entry, ok := value.(*vpp_l3.ARPEntry)
		if !ok {
			continue
		}
		if n, err := neighbourOf(entry); err == nil {
			n.index = index
			errs = append(errs, v.raw.setNeighbour(n))
		}
	}
	return errors.Join(errs...)
}

func (v *VSwitch) restoreRoutes(iface string, index int) error {
	var errs []error
	for _, key := range v.reg.keysOf(iface) {
		value, _ := v.reg.get(key)
		switch value := value.(type) {
		case *vpp_l3.Route:
			errs = append(errs, routes{v}.add(value, index))
		case *vpp_srv6.LocalSID:
			errs = append(errs, localSIDs{v}.set(value))
		}
	}
	return errors.Join(errs...)
}

// resolveRoutes puts routes back whose device is for the kernel to find, if it
// can find one (again).
func (v *VSwitch) resolveRoutes() error {
	for _, key := range v.reg.keysOf("") {
		value, _ := v.reg.get(key)
		route, ok := value.(*vpp_l3.Route)
		if !ok || route.GetType() == vpp_l3.Route_DROP || leadsAway(route) {
			continue
		}
		if err := (routes{v}).add(route, 0); err != nil && !errors.Is(err, unix.ENETUNREACH) && !errors.Is(err, unix.EHOSTUNREACH) {
			return err
		}
	}
	return nil
}

// afterAddressRemoval restores what went with the last IPv4 address.
func (v *VSwitch) afterAddressRemoval(iface string, index int, removed netip.Addr) error {
	if !removed.Is4() || len(v.reg.keysOf(iface)) <= 1 {
		return nil // nothing but the interface
	}
	addrs, err := v.raw.addresses(index)
	if err != nil {
		return err
	}
	for _, a := range addrs {
		if a.prefix.Addr().Is4() {
			return nil
		}
	}
	err = errors.Join(v.restoreNeighbours(iface, index), v.restoreRoutes(iface, index))
	if errors.Is(err, unix.ENETDOWN) {
		return nil // nothing can be restored while the device is down
	}
	return err
}
