package interfaces

import (
	"context"
	"fmt"
	"slices"

	"github.com/contiv/contiv/vswitch/vpp/hostdev"

	"github.com/contiv/contiv/vswitch/vpp/ownership"
	"github.com/contiv/contiv/vswitch/vpp/session"

	"github.com/contiv/contiv/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/af_xdp"
	interfaces_api "go.fd.io/govpp/binapi/interface"
)

var afXDPModule = session.NewModule("af_xdp_plugin.so", "AF_XDP interfaces",
	&af_xdp.AfXdpCreateV3{}, &af_xdp.AfXdpCreateV3Reply{}, &af_xdp.AfXdpDelete{}, &af_xdp.AfXdpDeleteReply{})

const classAFXDP = "AF_XDP interface"

// allQueues asks for all that the device has.
const allQueues = 0xffff

// isXDP reports whether a device of the host is to be taken over by AF_XDP.
func (v *Interfaces) isXDP(device string) bool { return slices.Contains(v.xdpDevices, device) }

// takeOverXDP attaches to a device of the host by AF_XDP. What it receives does not come
// to the host's stack any more, and it has the name of the device.
func (v *Interfaces) takeOverXDP(ctx context.Context, device string) (ownership.Index, error) {
	if err := v.putUp(device); err != nil {
		return 0, err
	}
	var reply af_xdp.AfXdpCreateV3Reply
	if err := v.vpp.Call(ctx, afXDPModule, &af_xdp.AfXdpCreateV3{HostIf: device, Name: device, RxqNum: allQueues}, &reply); err != nil {
		return 0, fmt.Errorf("taking over device %q by AF_XDP (VPP's log says more: vppctl show log): %w", device, err)
	}
	err := v.setInterrupts(ctx, reply.SwIfIndex) // with workers, VPP has to poll it
	if err != nil && !vppapi.Refused(err, api.UNIMPLEMENTED, api.INVALID_VALUE) {
		return 0, fmt.Errorf("setting the RX mode of %q: %w", device, err)
	}
	return reply.SwIfIndex, nil
}

// putUp puts a device of the host up, which VPP does not do for AF_XDP.
func (v *Interfaces) putUp(device string) error {
	h, err := hostdev.Of(v.vpp)
	if err != nil {
		return err
	}
	defer h.Close()
	dev, err := h.Device(device)
	if err != nil || dev == nil {
		return err
	}
	if err := h.LinkSetUp(dev); err != nil {
		return fmt.Errorf("putting device %q up: %w", device, err)
	}
	return nil
}

// removeNative lets a device go that is there whether we use it or not: one that VPP had
// by itself loses its tag, one that was taken over is the host's again.
func (v *Interfaces) removeNative(ctx context.Context, d *interfaces_api.SwInterfaceDetails) error {
	if d.InterfaceDevType == classAFXDP && v.isXDP(d.InterfaceName) {
		return v.vpp.Call(ctx, afXDPModule, &af_xdp.AfXdpDelete{SwIfIndex: d.SwIfIndex}, &af_xdp.AfXdpDeleteReply{})
	}
	return v.vpp.Call(ctx, ifaceModule, &interfaces_api.SwInterfaceTagAddDel{SwIfIndex: d.SwIfIndex}, &interfaces_api.SwInterfaceTagAddDelReply{})
}
