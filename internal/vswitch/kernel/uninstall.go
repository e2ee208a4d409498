package kernel

import (
	"context"
	"errors"
	"fmt"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"
)

// Uninstall removes the objects that outlive the last value because no northbound value represents
// them: our nftables tables and leftover policy rules. If devices, addresses, routes or neighbours
// with our marks remain, it returns an error that names them. It leaves sysctls unchanged, because
// other software may depend on them.
func (v *VSwitch) Uninstall(ctx context.Context) error {
	return errors.Join(v.nat.Drop(), v.acl.Drop(ctx), v.guards.Uninstall(), v.policies.Drop(ctx), v.segments.Sweep(), v.vrf.Drop(), v.leftovers())
}

func (v *VSwitch) leftovers() error {
	devs, err := v.Devices()
	if err != nil {
		return err
	}
	var errs []error
	for _, link := range devs.ByIndex {
		if own.IsOurs(link) {
			errs = append(errs, fmt.Errorf("device %s (alias %q) is left: remove it with `ip link delete %s`",
				link.Attrs().Name, link.Attrs().Alias, link.Attrs().Name))
		}
	}
	addrs, err := v.Net.Addresses(0)
	if err != nil {
		return err
	}
	for _, a := range addrs {
		if a.Proto == own.ProtoOurs || a.Proto == own.ProtoBorrowed || a.Proto == own.ProtoLeased {
			errs = append(errs, fmt.Errorf("address %v on device %d is left: remove it with `ip address delete`", a.Prefix, a.Index))
		}
	}
	routes, err := v.routes.RoutePort().List(context.Background(), nil)
	if err != nil {
		return err
	}
	for _, r := range routes {
		errs = append(errs, fmt.Errorf("route to %s is left: remove it with `ip route flush proto %d`", r.GetDstNetwork(), own.ProtoOurs))
	}
	return errors.Join(errs...)
}
