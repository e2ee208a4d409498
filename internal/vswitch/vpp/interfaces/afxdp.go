package interfaces

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/contiv/contiv/internal/vswitch/vpp/hostdev"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/af_xdp"
	"go.fd.io/govpp/binapi/ethernet_types"
	interfaces_api "go.fd.io/govpp/binapi/interface"
)

var afXDPModule = session.NewModule("af_xdp_plugin.so", "AF_XDP interfaces",
	&af_xdp.AfXdpCreateV3{}, &af_xdp.AfXdpCreateV3Reply{}, &af_xdp.AfXdpDelete{}, &af_xdp.AfXdpDeleteReply{})

const classAFXDP = "AF_XDP interface"

// allQueues selects all queues of the device.
const allQueues = 0xffff

// isXDP reports whether a host device is to be taken over by AF_XDP.
func (v *Interfaces) isXDP(device string) bool { return slices.Contains(v.xdpDevices, device) }

// takeOverXDP attaches to a host device by AF_XDP, which hides its packets from the host's stack.
// VPP uses the host's name and MAC.
func (v *Interfaces) takeOverXDP(ctx context.Context, device string) (ownership.Index, error) {
	h, err := hostdev.Of(v.vpp)
	if err != nil {
		return 0, err
	}
	defer h.Close()
	dev, err := h.Device(device)
	if err != nil {
		return 0, err
	}
	if dev != nil {
		if leased, err := h.Leased(dev); err != nil {
			return 0, err
		} else if leased {
			v.log.Warn("Device used with AF_PACKET instead of AF_XDP, because the host needs DHCP or router advertisements", "device", device)
			return v.takeOver(ctx, device)
		}
		if err := completeChecksums(h, dev); err != nil {
			return 0, err
		}
		if err := h.LinkSetUp(dev); err != nil { // VPP does not for AF_XDP
			return 0, fmt.Errorf("putting device %q up: %w", device, err)
		}
	}
	var reply af_xdp.AfXdpCreateV3Reply
	if err := v.vpp.Call(ctx, afXDPModule, &af_xdp.AfXdpCreateV3{HostIf: device, Name: device, RxqNum: allQueues}, &reply); err != nil {
		return 0, fmt.Errorf("taking over device %q by AF_XDP (VPP's log says more: vppctl show log): %w", device, err)
	}
	if err := v.setUpXDP(ctx, reply.SwIfIndex, hostdev.MacOf(dev)); err != nil {
		err = fmt.Errorf("device %q: %w", device, err)
		return 0, errors.Join(err, v.vpp.Call(ctx, afXDPModule, &af_xdp.AfXdpDelete{SwIfIndex: reply.SwIfIndex}, &af_xdp.AfXdpDeleteReply{}))
	}
	return reply.SwIfIndex, nil
}

// setUpXDP sets the device's MAC on the interface, because VPP invents one that a network card does
// not receive; nil if the device cannot be seen. With workers, VPP has to poll it.
func (v *Interfaces) setUpXDP(ctx context.Context, i ownership.Index, mac net.HardwareAddr) error {
	if mac != nil {
		set := &interfaces_api.SwInterfaceSetMacAddress{SwIfIndex: i, MacAddress: ethernet_types.NewMacAddress(mac)}
		if err := v.vpp.Call(ctx, ifaceModule, set, &interfaces_api.SwInterfaceSetMacAddressReply{}); err != nil {
			return fmt.Errorf("setting the MAC address: %w", err)
		}
	}
	err := v.setInterrupts(ctx, i)
	if err != nil && !vppapi.Refused(err, api.UNIMPLEMENTED, api.INVALID_VALUE) {
		return fmt.Errorf("setting the RX mode: %w", err)
	}
	return nil
}

// removeNative releases a device that exists independently of us: VPP's own device loses its tag,
// and a host device is returned to the host.
func (v *Interfaces) removeNative(ctx context.Context, d *interfaces_api.SwInterfaceDetails) error {
	if d.InterfaceDevType == classAFXDP && v.isXDP(d.InterfaceName) {
		return v.vpp.Call(ctx, afXDPModule, &af_xdp.AfXdpDelete{SwIfIndex: d.SwIfIndex}, &af_xdp.AfXdpDeleteReply{})
	}
	return v.vpp.Call(ctx, ifaceModule, &interfaces_api.SwInterfaceTagAddDel{SwIfIndex: d.SwIfIndex}, &interfaces_api.SwInterfaceTagAddDelReply{})
}
