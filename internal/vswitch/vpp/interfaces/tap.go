package interfaces

import (
	"context"
	"errors"
	"fmt"

	"github.com/contiv/contiv/internal/vswitch/vpp/hostdev"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/netlink/nsfile"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"github.com/contiv/contiv/models"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/tapv2"
	"google.golang.org/protobuf/proto"
)

var tapModule = session.NewModule("", "TAPs",
	&tapv2.TapCreateV3{}, &tapv2.TapCreateV3Reply{},
	&tapv2.TapDeleteV2{}, &tapv2.TapDeleteV2Reply{},
	&tapv2.SwInterfaceTapV2Dump{}, &tapv2.SwInterfaceTapV2Details{},
)

const (
	defaultRing = 256
	// maxField is the maximum length of names in fixed message fields.
	maxField = 63
)

func supportedTap(tap *vpp_interfaces.TapLink) error {
	switch {
	case tap.GetEnableGso():
		// Enabling VPP's own segmentation does not help: VPP crashes.
		return vswitch.Unsupported("tap.enable_gso: VPP 25.10 does not segment the large packets when they leave by another interface, and an AF_PACKET interface " +
			"sends nothing any more after the first one: leave enableGSO out")
	case tap.GetRxRingSize() > 1<<15 || tap.GetTxRingSize() > 1<<15:
		return vswitch.Unsupported("tap.rx_ring_size, tap.tx_ring_size: VPP has rings of at most %d descriptors", 1<<15)
	}
	return nil
}

// makeTap: without namespace, the far end is in VPP's own.
func (v *Interfaces) makeTap(ctx context.Context, iface *vpp_interfaces.Interface) (ownership.Index, error) {
	tap := iface.GetTap()
	ns, err := hostNamespace(tap)
	if err != nil {
		return 0, err
	}
	name := tapHostName(iface)
	if len(name) > maxField {
		return 0, fmt.Errorf("tap.host_if_name %q is too long", name)
	}
	req := &tapv2.TapCreateV3{
		ID: ^uint32(0), UseRandomMac: true, NumRxQueues: 1, NumTxQueues: 1,
		RxRingSz: ring(tap.GetRxRingSize()), TxRingSz: ring(tap.GetTxRingSize()),
		HostIfNameSet: true, HostIfName: name, HostNamespaceSet: ns != "", HostNamespace: ns,
		Tag: iface.GetName(),
	}
	if mac, err := convert.ParseMAC(iface.GetPhysAddress()); err == nil {
		req.UseRandomMac, req.MacAddress = false, mac
	}
	if mtu := iface.GetMtu(); mtu != 0 {
		req.HostMtuSet, req.HostMtuSize = true, mtu
	}
	if tap.GetEnableTunnel() {
		req.TapFlags |= tapv2.TAP_API_FLAG_TUN
	}
	if err := v.roomForRing(ctx, req.RxRingSz); err != nil {
		return 0, fmt.Errorf("making a TAP with the far end %s: %w", name, err)
	}
	var reply tapv2.TapCreateV3Reply
	err = v.vpp.Call(ctx, tapModule, req, &reply)
	switch {
	case vppapi.Refused(err, api.SYSCALL_ERROR_1):
		return 0, fmt.Errorf("making a TAP: VPP cannot use /dev/vhost-net: load the module vhost_net and let VPP's container have the device, "+
			"or attach pods by AF_PACKET: %w", err)
	case err != nil:
		return 0, fmt.Errorf("making a TAP with the far end %s: %w", name, err)
	}
	err = v.putFarEndDown(ns, name)
	if err == nil {
		err = v.setInterrupts(ctx, reply.SwIfIndex)
	}
	if err != nil {
		return 0, errors.Join(err, v.removeTap(ctx, reply.SwIfIndex))
	}
	return reply.SwIfIndex, nil
}

// putFarEndDown sets the waiting far end down, which VPP has set up: it would get addresses, and a
// device that is up cannot be renamed. VPP and we share namespace paths.
func (v *Interfaces) putFarEndDown(ns, name string) error {
	h, err := hostdev.Of(v.vpp)
	if err != nil {
		return fmt.Errorf("putting the far end %s down: %w", name, err)
	}
	defer h.Close()
	if h == nil {
		return nil
	}
	if ns != "" {
		there, err := hostdev.Open(ns)
		if err != nil {
			return fmt.Errorf("putting the far end %s down in %s: %w", name, ns, err)
		}
		defer there.Close()
		h = there
	}
	dev, err := h.Device(name)
	if err != nil || dev == nil {
		return err
	}
	if err := h.LinkSetDown(dev); err != nil {
		return fmt.Errorf("putting the far end %s down: %w", name, err)
	}
	return nil
}

func ring(size uint32) uint16 {
	if size == 0 {
		return defaultRing
	}
	return uint16(size)
}

func tapHostName(iface *vpp_interfaces.Interface) string {
	if name := iface.GetTap().GetHostIfName(); name != "" {
		return name
	}
	return models.TapHostIfName(iface.GetName())
}

// hostNamespace returns the path of the far end's namespace, "" for VPP's own.
func hostNamespace(tap *vpp_interfaces.TapLink) (string, error) {
	path, ok := models.NetNSPath(tap.GetHostNamespace(), models.NetNSDir)
	switch {
	case !ok:
		return "", fmt.Errorf("tap.host_namespace: %w: no microservice %q runs on this node", vswitch.ErrNamespaceGone, tap.GetHostNamespace().GetReference())
	case len(path) > maxField:
		return "", vswitch.Unsupported("tap.host_namespace %s: VPP knows paths of at most %d characters", path, maxField)
	case path == "":
		return "", nil
	}
	file, err := nsfile.Open(path) // VPP would open any file, and block on a FIFO
	if errors.Is(err, nsfile.ErrNone) || errors.Is(err, nsfile.ErrOther) {
		return "", fmt.Errorf("tap.host_namespace: %w: %w", vswitch.ErrNamespaceGone, err)
	}
	if err != nil {
		return "", fmt.Errorf("tap.host_namespace: %w", err)
	}
	file.Close()
	return path, nil
}

func (v *Interfaces) removeTap(ctx context.Context, i ownership.Index) error {
	return v.vpp.Call(ctx, tapModule, &tapv2.TapDeleteV2{SwIfIndex: i}, &tapv2.TapDeleteV2Reply{})
}

// describeTap returns the parameters of a TAP. VPP's defaults match unset fields. A TAP without far
// end matches no wanted one.
func (inv *inventory) describeTap(d *tapv2.SwInterfaceTapV2Details, expected *vpp_interfaces.Interface) *vpp_interfaces.TapLink {
	tap := proto.CloneOf(expected.GetTap())
	if tap == nil {
		tap = &vpp_interfaces.TapLink{Version: 2, HostIfName: d.HostIfName}
	}
	if tapHostName(expected) != d.HostIfName {
		tap.HostIfName = d.HostIfName
	}
	if path, err := hostNamespace(tap); err != nil || path != d.HostNamespace {
		tap.HostNamespace = nil
		if d.HostNamespace != "" {
			tap.HostNamespace = &linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_FD, Reference: d.HostNamespace}
		}
	}
	if ring(tap.GetRxRingSize()) != d.RxRingSz {
		tap.RxRingSize = uint32(d.RxRingSz)
	}
	if ring(tap.GetTxRingSize()) != d.TxRingSz {
		tap.TxRingSize = uint32(d.TxRingSz)
	}
	if inv.dead[d.DevName] {
		tap.HostIfName = ownership.UnknownPrefix + d.HostIfName
	}
	tap.EnableGso = d.TapFlags&tapv2.TAP_API_FLAG_GSO != 0
	tap.EnableTunnel = d.TapFlags&tapv2.TAP_API_FLAG_TUN != 0
	return tap
}
