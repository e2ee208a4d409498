package interfaces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/contiv/contiv/internal/vswitch/vpp/hostdev"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"github.com/vishvananda/netlink"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/af_packet"
	"go.fd.io/govpp/binapi/ethernet_types"
)

var afPacketModule = session.NewModule("af_packet_plugin.so", "AF_PACKET interfaces",
	&af_packet.AfPacketCreateV3{}, &af_packet.AfPacketCreateV3Reply{},
	&af_packet.AfPacketDelete{}, &af_packet.AfPacketDeleteReply{},
	&af_packet.AfPacketDump{}, &af_packet.AfPacketDetails{},
)

// hostPrefix starts VPP's names of AF_PACKET interfaces.
const hostPrefix = "host-"

// makeAFPacket attaches to a host device. VPP selects the MAC unless one is requested; the device
// keeps its own.
func (v *Interfaces) makeAFPacket(ctx context.Context, iface *vpp_interfaces.Interface) (ownership.Index, error) {
	name := iface.GetAfpacket().GetHostIfName()
	if linux := iface.GetAfpacket().GetLinuxInterface(); linux != "" {
		h, err := hostdev.Of(v.vpp)
		if err != nil {
			return 0, err
		}
		defer h.Close()
		dev, err := h.DeviceOfLinuxInterface(linux)
		if err != nil {
			return 0, err
		}
		if dev == nil {
			return 0, fmt.Errorf("no device in VPP's network namespace is Linux interface %q", linux)
		}
		// The host's packets there would count as spoofed by the pod.
		if err := h.Silence(dev); err != nil {
			return 0, err
		}
		name = dev.Attrs().Name
	}
	mac, err := convert.ParseMAC(iface.GetPhysAddress())
	return v.attach(ctx, name, mac, err != nil)
}

// txFrames is the number of frames in the transmit ring of an AF_PACKET interface. Each frame takes
// up to 64 KiB of pinned memory, so VPP's default of 1024 would cost 66 MiB per pod. The kernel
// sends frames while VPP adds them, so the ring only needs to hold a burst.
const txFrames = 128

// attach creates an AF_PACKET interface or takes an existing one.
func (v *Interfaces) attach(ctx context.Context, device string, mac ethernet_types.MacAddress, randomMAC bool) (ownership.Index, error) {
	var reply af_packet.AfPacketCreateV3Reply
	err := v.vpp.Call(ctx, afPacketModule, &af_packet.AfPacketCreateV3{
		Mode: af_packet.AF_PACKET_API_MODE_ETHERNET, HostIfName: device, HwAddr: mac, UseRandomHwAddr: randomMAC,
		NumRxQueues: 1, NumTxQueues: 1, TxFramesPerBlock: txFrames,
		// Veths deliver packets without checksum and larger than their MTU, which these flags
		// allow.
		Flags: af_packet.AF_PACKET_API_FLAG_QDISC_BYPASS | af_packet.AF_PACKET_API_FLAG_CKSUM_GSO,
	}, &reply)
	switch {
	case vppapi.Refused(err, api.INVALID_INTERFACE):
		return 0, fmt.Errorf("no device %q in VPP's network namespace: check its name with `ip link`: %w", device, err)
	case vppapi.Refused(err, api.IF_ALREADY_EXISTS):
		return v.takeUntagged(ctx, reply.SwIfIndex, "device "+device)
	case err != nil:
		return 0, fmt.Errorf("attaching to device %q: %w", device, err)
	}
	return reply.SwIfIndex, nil
}

// takeUntagged takes an interface with the requested identity: an earlier attempt that was not
// tagged.
func (v *Interfaces) takeUntagged(ctx context.Context, i ownership.Index, what string) (ownership.Index, error) {
	d, err := v.ifs.Details(ctx, i)
	switch {
	case err != nil:
		return 0, err
	case d == nil:
		return 0, fmt.Errorf("%s: the interface that VPP has for it has disappeared", what)
	case ownership.LogicalName(d) != "":
		return 0, fmt.Errorf("%s is used by interface %q (%s in VPP): delete that", what, ownership.LogicalName(d), d.InterfaceName)
	}
	return i, nil
}

// removeAFPacket returns the device to the host, up if it was.
func (v *Interfaces) removeAFPacket(ctx context.Context, i ownership.Index) error {
	name, err := v.hostNameOf(ctx, i)
	if err != nil || name == "" {
		return err
	}
	h, err := hostdev.Of(v.vpp)
	if err != nil {
		v.log.Warn("Reading the device of an AF_PACKET interface failed", "device", name, "error", err)
		h = nil
	}
	defer h.Close()
	before, err := h.Device(name)
	if err != nil {
		return err
	}
	err = v.vpp.Call(ctx, afPacketModule, &af_packet.AfPacketDelete{HostIfName: name}, &af_packet.AfPacketDeleteReply{})
	if err != nil && !vppapi.Refused(err, api.SYSCALL_ERROR_1) { // none exists
		return fmt.Errorf("detaching from device %q: %w", name, err)
	}
	if before == nil {
		return nil
	}
	if before.Attrs().Flags&net.FlagUp != 0 {
		if err := h.LinkSetUp(before); err != nil { // VPP has put it down
			return fmt.Errorf("putting device %q up again: %w", name, err)
		}
	}
	return h.Unshield(name)
}

// hostNameOf returns the host device of an AF_PACKET interface; "" for other interfaces.
func (v *Interfaces) hostNameOf(ctx context.Context, i ownership.Index) (string, error) {
	all, err := session.Dump[af_packet.AfPacketDetails](ctx, v.vpp, afPacketModule, &af_packet.AfPacketDump{})
	for _, d := range all {
		if d.SwIfIndex == i {
			return d.HostIfName, nil
		}
	}
	return "", err
}

// withHostDevice calls fn with the host device of an AF_PACKET interface, if visible.
func (v *Interfaces) withHostDevice(ctx context.Context, i ownership.Index, fn func(*hostdev.Namespace, netlink.Link) error) error {
	name, err := v.hostNameOf(ctx, i)
	if err != nil || name == "" {
		return err
	}
	h, err := hostdev.Of(v.vpp)
	if err != nil {
		v.log.Warn("Reading the device of an AF_PACKET interface failed", "device", name, "error", err)
		return nil
	}
	defer h.Close()
	dev, err := h.Device(name)
	if err != nil || dev == nil {
		return err
	}
	return fn(h, dev)
}

// hostMTU returns the MTU of an AF_PACKET interface's host device, 0 if not visible.
func (v *Interfaces) hostMTU(ctx context.Context, i ownership.Index) (mtu uint32, err error) {
	err = v.withHostDevice(ctx, i, func(_ *hostdev.Namespace, dev netlink.Link) error {
		mtu = uint32(dev.Attrs().MTU)
		return nil
	})
	return mtu, err
}

// raiseHostMTU raises the device's MTU if needed.
func (v *Interfaces) raiseHostMTU(ctx context.Context, i ownership.Index, mtu uint32) error {
	return v.withHostDevice(ctx, i, func(h *hostdev.Namespace, dev netlink.Link) error {
		if dev.Attrs().MTU >= int(mtu) {
			return nil
		}
		if err := h.LinkSetMTU(dev, int(mtu)); err != nil {
			return fmt.Errorf("setting the MTU of device %s to %d: %w", dev.Attrs().Name, mtu, err)
		}
		return nil
	})
}

// takeNIC uses an existing network card: VPP's, or else a host device.
func (v *Interfaces) takeNIC(ctx context.Context, iface *vpp_interfaces.Interface) (ownership.Index, error) {
	name := iface.GetName()
	all, err := v.ifs.All(ctx)
	if err != nil {
		return 0, err
	}
	for _, d := range all {
		if d.InterfaceName == name || d.InterfaceName == hostPrefix+name && d.InterfaceDevType == classAFPacket {
			return v.takeUntagged(ctx, d.SwIfIndex, "device "+name)
		}
	}
	if v.isXDP(name) {
		return v.takeOverXDP(ctx, name)
	}
	i, err := v.takeOver(ctx, strings.TrimPrefix(name, hostPrefix))
	if vppapi.Refused(err, api.INVALID_INTERFACE) {
		return 0, fmt.Errorf("VPP itself drives %s, and %w", cmp.Or(strings.Join(nicNames(all), ", "), "no network card"), err)
	}
	return i, err
}

// takeOver attaches to a host device and shields it from the host's stack, unless it is lent. It
// keeps its MAC, which the network knows.
func (v *Interfaces) takeOver(ctx context.Context, name string) (ownership.Index, error) {
	h, err := hostdev.Of(v.vpp)
	if err != nil {
		return 0, err
	}
	defer h.Close()
	dev, err := h.Device(name)
	if err != nil {
		return 0, err
	}
	if err := completeChecksums(h, dev); err != nil {
		return 0, err
	}
	mac := ethernet_types.NewMacAddress(hostdev.MacOf(dev))
	i, err := v.attach(ctx, name, mac, hostdev.MacOf(dev) == nil)
	if err != nil || dev == nil || v.lent != nil && v.lent(name) {
		return i, err
	}
	if err := h.Shield(name); err != nil {
		return 0, errors.Join(err, v.removeIndex(ctx, i))
	}
	return i, nil
}

// completeChecksums: VPP leaves checksums to a network card. Veths leave them to the other end,
// which may be another VPP: see docs/design/vpp.md, "Interfaces".
func completeChecksums(h *hostdev.Namespace, dev netlink.Link) error {
	if _, veth := dev.(*netlink.Veth); veth {
		return h.CompleteChecksums(dev.Attrs().Name)
	}
	return nil
}
