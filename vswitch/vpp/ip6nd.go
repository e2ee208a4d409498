package vpp

import (
	"context"
	"fmt"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"go.fd.io/govpp/binapi/rd_cp"
)

var ip6NDModule = newModule("", "IPv6 autoconfiguration", &rd_cp.IP6NdAddressAutoconfig{}, &rd_cp.IP6NdAddressAutoconfigReply{})

// SetIP6ND: VPP installs default routes only where it configures addresses as well.
func (v interfaces) SetIP6ND(ctx context.Context, iface string, nd *vpp_interfaces.Interface_IP6ND) error {
	i, err := v.ifs.index(ctx, iface)
	if err == nil {
		err = v.autoconfigure(ctx, i, nd)
	}
	if err != nil {
		return fmt.Errorf("letting interface %q configure itself: %w", iface, err)
	}
	return nil
}

func (v interfaces) autoconfigure(ctx context.Context, i index, nd *vpp_interfaces.Interface_IP6ND) error {
	return v.call(ctx, ip6NDModule, &rd_cp.IP6NdAddressAutoconfig{
		SwIfIndex: i, Enable: nd.GetAddressAutoconfig() || nd.GetInstallDefaultRoutes(), InstallDefaultRoutes: nd.GetInstallDefaultRoutes(),
	}, &rd_cp.IP6NdAddressAutoconfigReply{})
}

func (v interfaces) UnsetIP6ND(ctx context.Context, iface string) error {
	err := v.onExisting(ctx, iface, func(i index) error { return v.autoconfigure(ctx, i, nil) })
	if err != nil {
		return fmt.Errorf("ending that interface %q configures itself: %w", iface, err)
	}
	return nil
}
