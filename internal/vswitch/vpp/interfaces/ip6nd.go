package interfaces

import (
	"context"
	"fmt"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"go.fd.io/govpp/binapi/rd_cp"
)

var ip6NDModule = session.NewModule("", "IPv6 autoconfiguration", &rd_cp.IP6NdAddressAutoconfig{}, &rd_cp.IP6NdAddressAutoconfigReply{})

// SetIP6ND: VPP installs default routes only together with addresses.
func (v *Interfaces) SetIP6ND(ctx context.Context, iface string, nd *vpp_interfaces.Interface_IP6ND) error {
	i, err := v.ifs.Index(ctx, iface)
	if err == nil {
		err = v.autoconfigure(ctx, i, nd)
	}
	if err != nil {
		return fmt.Errorf("letting interface %q configure itself: %w", iface, err)
	}
	return nil
}

func (v *Interfaces) autoconfigure(ctx context.Context, i ownership.Index, nd *vpp_interfaces.Interface_IP6ND) error {
	return v.vpp.Call(ctx, ip6NDModule, &rd_cp.IP6NdAddressAutoconfig{
		SwIfIndex: i, Enable: nd.GetAddressAutoconfig() || nd.GetInstallDefaultRoutes(), InstallDefaultRoutes: nd.GetInstallDefaultRoutes(),
	}, &rd_cp.IP6NdAddressAutoconfigReply{})
}

func (v *Interfaces) UnsetIP6ND(ctx context.Context, iface string) error {
	err := v.ifs.OnExisting(ctx, iface, func(i ownership.Index) error { return v.autoconfigure(ctx, i, nil) })
	if err != nil {
		return fmt.Errorf("ending that interface %q configures itself: %w", iface, err)
	}
	return nil
}
