package interfaces

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	interfaces_api "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/interface_types"
)

var ifaceModule = session.NewModule("", "interfaces",
	&interfaces_api.SwInterfaceTagAddDel{}, &interfaces_api.SwInterfaceTagAddDelReply{},
	&interfaces_api.SwInterfaceSetFlags{}, &interfaces_api.SwInterfaceSetFlagsReply{},
	&interfaces_api.SwInterfaceSetMtu{}, &interfaces_api.SwInterfaceSetMtuReply{},
	&interfaces_api.HwInterfaceSetMtu{}, &interfaces_api.HwInterfaceSetMtuReply{},
	&interfaces_api.SwInterfaceSetMacAddress{}, &interfaces_api.SwInterfaceSetMacAddressReply{},
)

// Interfaces drives VPP's interfaces, identified by their tags.
type Interfaces struct {
	subsystem.Base
	vpp        *session.Session
	ifs        *ownership.Registry
	hub        *subsystem.Hub
	log        *slog.Logger
	xdpDevices []string
	lent       func(string) bool
	counters   Counters
	clients    DHCPClients
	onCreate   []func(context.Context, ownership.Index) error
	onDelete   []func(context.Context, ownership.Index) error
	onTunnels  func(context.Context) error
	onAddress  func(context.Context, ownership.Index, netip.Addr) error

	events  *ifEvents
	reports vswitch.StateReports
}

// Options of Interfaces.
type Options struct {
	Session  *session.Session
	Registry *ownership.Registry
	Hub      *subsystem.Hub
	Log      *slog.Logger

	// XDPDevices lists the host devices taken over by AF_XDP; others use AF_PACKET.
	XDPDevices []string
	// Lent reports whether another party shields a device's packets from the host's stack; may be
	// nil.
	Lent func(device string) bool

	Counters Counters
	Clients  DHCPClients

	// OnCreate prepares new interfaces. An error fails the creation.
	OnCreate []func(context.Context, ownership.Index) error
	// OnDelete removes state of an interface before its deletion. VPP would keep it for the next
	// interface with the index, and refuse requests about it meanwhile.
	OnDelete []func(context.Context, ownership.Index) error
	// OnAddress is called when an interface has a new address.
	OnAddress func(context.Context, ownership.Index, netip.Addr) error
	// OnTunnels is called when a VXLAN tunnel is added or removed.
	OnTunnels func(context.Context) error
}

// Counters are VPP's statistics.
type Counters interface {
	// Interfaces returns the counters of each interface by index.
	Interfaces() (map[ownership.Index]*vpp_interfaces.InterfaceState_Statistics, error)
}

// DHCPClients assign addresses on their own.
type DHCPClients interface {
	// Start starts reading the clients. The returned function waits for the leased address of each
	// client, by interface index; the zero Prefix if none.
	Start(ctx context.Context) (wait func() (map[ownership.Index]netip.Prefix, error))
}

// New returns the interfaces of a VPP.
func New(o Options) *Interfaces {
	uses := []*session.Module{
		ownership.Interfaces, ifaceModule, ifEventsModule, addressModule, rxModule, ip6NDModule, afPacketModule, afXDPModule, bondModule,
		loopbackModule, memifModule, subModule, tapModule, greModule, ipipModule, vxlanModule, wireGuardModule,
	}
	return &Interfaces{
		Base: subsystem.Base{Uses: uses}, vpp: o.Session, ifs: o.Registry, hub: o.Hub, log: o.Log, xdpDevices: o.XDPDevices, lent: o.Lent,
		counters: o.Counters, clients: o.Clients, onCreate: o.OnCreate, onDelete: o.OnDelete, onAddress: o.OnAddress, onTunnels: o.OnTunnels, events: newIfEvents(),
	}
}

// Create creates an interface in three steps: the interface, its tag, its parameters. An untagged
// interface of an earlier attempt is found by its identity (a tunnel, an AF_PACKET socket), or was
// removed at once if its kind has none.
func (v *Interfaces) Create(ctx context.Context, iface *vpp_interfaces.Interface) error {
	err := v.create(ctx, iface)
	if err == nil {
		err = v.created(ctx, iface.GetName())
	}
	if err == nil && iface.GetType() == vpp_interfaces.Interface_VXLAN_TUNNEL {
		err = v.onTunnels(ctx)
	}
	if err != nil {
		return fmt.Errorf("creating interface %q: %w", iface.GetName(), err)
	}
	v.expect(iface)
	return nil
}

// created informs the other subsystems of a new interface.
func (v *Interfaces) created(ctx context.Context, name string) error {
	i, ok := v.ifs.Cached(name)
	if !ok {
		return nil
	}
	for _, created := range v.onCreate {
		if err := created(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// leaving informs the other subsystems before an interface is deleted.
func (v *Interfaces) leaving(ctx context.Context, i ownership.Index) error {
	var failed error
	for _, leaving := range v.onDelete {
		if err := leaving(ctx, i); failed == nil && !vppapi.Refused(err, api.INVALID_SW_IF_INDEX) {
			failed = err
		}
	}
	return failed
}

// expect records the desired state of our interface.
func (v *Interfaces) expect(iface *vpp_interfaces.Interface) {
	v.events.expect(iface.GetName(), iface)
	if i, ok := v.ifs.Cached(iface.GetName()); ok {
		v.events.touched(i)
	}
}

func (v *Interfaces) create(ctx context.Context, iface *vpp_interfaces.Interface) error {
	if err := supported(iface); err != nil {
		return err
	}
	if now, err := v.existing(ctx, iface.GetName()); err != nil {
		return err
	} else if now != nil {
		same, err := v.isAsWanted(ctx, iface)
		if err != nil {
			return err
		}
		if same {
			return v.adjust(ctx, now, iface)
		}
		if err := v.remove(ctx, now); err != nil {
			return fmt.Errorf("removing the one that exists with other parameters: %w", err)
		}
	}
	build, _ := v.kind(iface.GetType())
	if build == nil {
		return vswitch.Unsupported("interfaces of type %v", iface.GetType())
	}
	i, err := build(ctx, iface)
	if err != nil {
		return err
	}
	if err := v.setTag(ctx, i, iface.GetName()); err != nil {
		return errors.Join(err, v.removeIndex(ctx, i))
	}
	v.ifs.Put(iface.GetName(), i)
	now, err := v.existing(ctx, iface.GetName())
	if err != nil {
		return err
	}
	if now == nil {
		return errors.New("it has disappeared")
	}
	return v.adjust(ctx, now, iface)
}

// supported returns an error for features that VPP, or this driver, lacks.
func supported(iface *vpp_interfaces.Interface) error {
	switch iface.GetType() {
	case vpp_interfaces.Interface_TAP:
		return supportedTap(iface.GetTap())
	case vpp_interfaces.Interface_VXLAN_TUNNEL:
		return supportedVXLAN(iface.GetVxlan())
	case vpp_interfaces.Interface_SUB_INTERFACE:
		return supportedSub(iface.GetSub())
	case vpp_interfaces.Interface_MEMIF:
		return supportedMemif(iface.GetMemif())
	case vpp_interfaces.Interface_GRE_TUNNEL:
		return supportedGRE(iface.GetGre())
	}
	if reason := lackedTypes[iface.GetType()]; reason != "" {
		return vswitch.Unsupported("interfaces of type %v: %s", iface.GetType(), reason)
	}
	return nil
}

// lackedTypes lists the unsupported types with alternatives.
var lackedTypes = map[vpp_interfaces.Interface_Type]string{
	vpp_interfaces.Interface_IPSEC_TUNNEL:      "use a WireGuard tunnel",
	vpp_interfaces.Interface_GTPU_TUNNEL:       "use a VXLAN, GRE or IPIP tunnel",
	vpp_interfaces.Interface_VMXNET3_INTERFACE: "let VPP's start-up configuration bind the device, and use it as an interface of type DPDK",
	vpp_interfaces.Interface_RDMA:              "let VPP's start-up configuration make the device, and use it as an interface of type DPDK",
}

// kind returns how to create interfaces of a type, with their type-specific parameters, and how to
// remove them; nil for types that are not created.
func (v *Interfaces) kind(t vpp_interfaces.Interface_Type) (
	build func(context.Context, *vpp_interfaces.Interface) (ownership.Index, error), remove func(context.Context, ownership.Index) error,
) {
	switch t {
	case vpp_interfaces.Interface_SOFTWARE_LOOPBACK:
		return v.makeLoopback, v.removeLoopback
	case vpp_interfaces.Interface_TAP:
		return v.makeTap, v.removeTap
	case vpp_interfaces.Interface_AF_PACKET:
		return v.makeAFPacket, v.removeAFPacket
	case vpp_interfaces.Interface_DPDK:
		return v.takeNIC, nil
	case vpp_interfaces.Interface_VXLAN_TUNNEL:
		return v.makeVXLAN, v.removeVXLAN
	case vpp_interfaces.Interface_SUB_INTERFACE:
		return v.makeSub, v.removeSub
	case vpp_interfaces.Interface_MEMIF:
		return v.makeMemif, v.removeMemif
	case vpp_interfaces.Interface_BOND_INTERFACE:
		return v.makeBond, v.removeBond
	case vpp_interfaces.Interface_GRE_TUNNEL:
		return v.makeGRE, v.removeGRE
	case vpp_interfaces.Interface_IPIP_TUNNEL:
		return v.makeIPIP, v.removeIPIP
	case vpp_interfaces.Interface_WIREGUARD_TUNNEL:
		return v.makeWireGuard, v.removeWireGuard
	}
	return nil, nil
}

// Names of VPP's device classes.
const (
	classLoopback  = "Loopback"
	classTap       = "virtio"
	classAFPacket  = "af-packet"
	classVXLAN     = "VXLAN"
	classMemif     = "memif"
	classBond      = "bond"
	classGRE       = "GRE tunnel device"
	classIPIP      = "IPIP tunnel device"
	classWireGuard = "Wireguard Tunnel"
)

var classTypes = map[string]vpp_interfaces.Interface_Type{
	classLoopback:  vpp_interfaces.Interface_SOFTWARE_LOOPBACK,
	classTap:       vpp_interfaces.Interface_TAP,
	classAFPacket:  vpp_interfaces.Interface_AF_PACKET,
	classVXLAN:     vpp_interfaces.Interface_VXLAN_TUNNEL,
	classMemif:     vpp_interfaces.Interface_MEMIF,
	classBond:      vpp_interfaces.Interface_BOND_INTERFACE,
	classGRE:       vpp_interfaces.Interface_GRE_TUNNEL,
	classIPIP:      vpp_interfaces.Interface_IPIP_TUNNEL,
	classWireGuard: vpp_interfaces.Interface_WIREGUARD_TUNNEL,
}

// typeOf returns the type of an interface. Other classes belong to VPP's own devices.
func typeOf(d *interfaces_api.SwInterfaceDetails) vpp_interfaces.Interface_Type {
	if isSub(d) {
		return vpp_interfaces.Interface_SUB_INTERFACE
	}
	if t, ok := classTypes[d.InterfaceDevType]; ok {
		return t
	}
	return vpp_interfaces.Interface_DPDK
}

// remove removes an interface of any kind; VPP's own device is released.
func (v *Interfaces) remove(ctx context.Context, d *interfaces_api.SwInterfaceDetails) error {
	err := v.leaving(ctx, d.SwIfIndex)
	if err != nil {
		return err
	}
	if _, remove := v.kind(typeOf(d)); remove != nil {
		err = remove(ctx, d.SwIfIndex)
	} else {
		err = v.removeNative(ctx, d)
	}
	if vppapi.Refused(err, api.INVALID_SW_IF_INDEX) {
		err = nil // it is gone
	}
	if err == nil && typeOf(d) == vpp_interfaces.Interface_VXLAN_TUNNEL {
		err = v.onTunnels(ctx)
	}
	if name := ownership.LogicalName(d); err == nil && name != "" {
		v.ifs.Remove(name)
		v.events.note(func(n *news) { n.gone[name] = struct{}{} })
	}
	return err
}

// removeIndex removes an interface without tag.
func (v *Interfaces) removeIndex(ctx context.Context, i ownership.Index) error {
	d, err := v.ifs.Details(ctx, i)
	if err != nil || d == nil || isNative(d) {
		return err
	}
	return v.remove(ctx, d)
}

// isNative reports whether VPP had the device by itself.
func isNative(d *interfaces_api.SwInterfaceDetails) bool {
	return typeOf(d) == vpp_interfaces.Interface_DPDK
}

func (v *Interfaces) setTag(ctx context.Context, i ownership.Index, name string) error {
	err := v.vpp.Call(ctx, ifaceModule, &interfaces_api.SwInterfaceTagAddDel{IsAdd: true, SwIfIndex: i, Tag: name}, &interfaces_api.SwInterfaceTagAddDelReply{})
	if err != nil {
		return fmt.Errorf("tagging it: %w", err)
	}
	return nil
}

// existing returns VPP's details of our interface; nil if it does not exist.
func (v *Interfaces) existing(ctx context.Context, name string) (*interfaces_api.SwInterfaceDetails, error) {
	i, ok, err := v.ifs.Known(ctx, name)
	if err != nil || !ok {
		return nil, err
	}
	d, err := v.ifs.Details(ctx, i)
	if err != nil || d != nil && ownership.LogicalName(d) == name {
		return d, err
	}
	// A foreign client has deleted the interface and may have created another.
	if err := v.ifs.Learn(ctx); err != nil {
		return nil, err
	}
	if i, ok, err = v.ifs.Known(ctx, name); err != nil || !ok {
		return nil, err
	}
	return v.ifs.Details(ctx, i)
}

// Update changes state, MAC and MTU.
func (v *Interfaces) Update(ctx context.Context, _, new *vpp_interfaces.Interface) error {
	v.events.expect(new.GetName(), new)
	err := supported(new)
	if err == nil {
		var now *interfaces_api.SwInterfaceDetails
		if now, err = v.existing(ctx, new.GetName()); err == nil && now == nil {
			err = &ownership.NoInterfaceError{Name: new.GetName()}
		} else if err == nil {
			err = v.adjust(ctx, now, new)
		}
	}
	if err != nil {
		return fmt.Errorf("updating interface %q: %w", new.GetName(), err)
	}
	v.expect(new)
	return nil
}

// adjust sets the state, MAC and MTU of an existing interface.
func (v *Interfaces) adjust(ctx context.Context, now *interfaces_api.SwInterfaceDetails, iface *vpp_interfaces.Interface) error {
	l, err := v.vpp.Use(ifaceModule)
	if err != nil {
		return err
	}
	if err := v.initFailure(ctx, now); err != nil {
		return err
	}
	b := session.NewBatch(l)
	if err := v.adjustMTU(ctx, b, now, iface); err != nil {
		return err
	}
	if mac, err := convert.ParseMAC(iface.GetPhysAddress()); err == nil && mac != now.L2Address {
		b.Add(ctx, "setting its MAC address", &interfaces_api.SwInterfaceSetMacAddress{SwIfIndex: now.SwIfIndex, MacAddress: mac}, &interfaces_api.SwInterfaceSetMacAddressReply{})
	}
	if up := now.Flags&interface_types.IF_STATUS_API_FLAG_ADMIN_UP != 0; up != iface.GetEnabled() && (iface.GetEnabled() || !isNative(now)) {
		flags := interface_types.IfStatusFlags(0)
		if iface.GetEnabled() {
			flags = interface_types.IF_STATUS_API_FLAG_ADMIN_UP
		}
		b.Add(ctx, "setting its state", &interfaces_api.SwInterfaceSetFlags{SwIfIndex: now.SwIfIndex, Flags: flags}, &interfaces_api.SwInterfaceSetFlagsReply{})
	}
	return b.Wait(ctx)
}

// adjustMTU: the model's MTU is that of IP packets, which VPP has per interface. The hardware's
// only has to be large enough.
func (v *Interfaces) adjustMTU(ctx context.Context, b *session.Batch, now *interfaces_api.SwInterfaceDetails, iface *vpp_interfaces.Interface) error {
	mtu := iface.GetMtu()
	if mtu == 0 && now.InterfaceDevType == classAFPacket {
		host, err := v.hostMTU(ctx, now.SwIfIndex)
		if err != nil {
			return err
		}
		mtu = host // the host's device does not send longer packets
	}
	if mtu == 0 || len(now.Mtu) > 0 && now.Mtu[0] == mtu {
		return nil
	}
	if now.InterfaceDevType == classAFPacket {
		if err := v.raiseHostMTU(ctx, now.SwIfIndex, mtu); err != nil {
			return err
		}
	} else if mtu > uint32(now.LinkMtu) && now.Type == interface_types.IF_API_TYPE_HARDWARE {
		// Interfaces without hardware have none.
		b.Add(ctx, "setting the MTU of the hardware", &interfaces_api.HwInterfaceSetMtu{SwIfIndex: now.SwIfIndex, Mtu: uint16(mtu)},
			&interfaces_api.HwInterfaceSetMtuReply{}, api.UNSUPPORTED, api.FEATURE_DISABLED)
	}
	b.Add(ctx, "setting its MTU", &interfaces_api.SwInterfaceSetMtu{SwIfIndex: now.SwIfIndex, Mtu: []uint32{mtu, 0, 0, 0}}, &interfaces_api.SwInterfaceSetMtuReply{})
	return nil
}

// Delete removes or releases the interface.
func (v *Interfaces) Delete(ctx context.Context, iface *vpp_interfaces.Interface) error {
	v.events.expect(iface.GetName(), nil)
	now, err := v.existing(ctx, iface.GetName())
	if err == nil && now != nil {
		err = v.remove(ctx, now)
	}
	if err != nil {
		return fmt.Errorf("deleting interface %q: %w", iface.GetName(), err)
	}
	return nil
}
