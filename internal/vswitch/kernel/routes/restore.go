package routes

import (
	"errors"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"golang.org/x/sys/unix"
)

// RestoreRoutes restores the registered routes through a device.
func (v *Driver) RestoreRoutes(iface string, index int) error {
	var errs []error
	for _, key := range v.Reg.KeysOf(iface) {
		value, _ := v.Reg.Get(key)
		if route, ok := value.(*vpp_l3.Route); ok {
			errs = append(errs, routes{v}.add(route, index))
		}
	}
	return errors.Join(errs...)
}

// ResolveRoutes restores routes without a device, if the kernel finds one (again).
func (v *Driver) ResolveRoutes() error {
	for _, key := range v.Reg.KeysOf("") {
		value, _ := v.Reg.Get(key)
		route, ok := value.(*vpp_l3.Route)
		if !ok || route.GetType() == vpp_l3.Route_DROP || own.LeadsAway(route) {
			continue
		}
		if err := (routes{v}).add(route, 0); err != nil && !errors.Is(err, unix.ENETUNREACH) && !errors.Is(err, unix.EHOSTUNREACH) {
			return err
		}
	}
	return nil
}
