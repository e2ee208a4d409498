package vpp

import (
	"context"
	"errors"
	"net/netip"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/af_packet"
	"go.fd.io/govpp/binapi/bond"
	"go.fd.io/govpp/binapi/dhcp"
	"go.fd.io/govpp/binapi/gre"
	interfaces_api "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/binapi/ip_types"
	"go.fd.io/govpp/binapi/ipip"
	"go.fd.io/govpp/binapi/memif"
	"go.fd.io/govpp/binapi/tapv2"
	"go.fd.io/govpp/binapi/vxlan"
	"go.fd.io/govpp/binapi/wireguard"
)

// inventory is what the interfaces of the vswitch are read from.
type inventory struct {
	v        interfaces
	details  []*interfaces_api.SwInterfaceDetails
	expected map[string]*vpp_interfaces.Interface
	names    map[index]string

	taps      map[index]*tapv2.SwInterfaceTapV2Details
	afPackets map[index]*af_packet.AfPacketDetails
	tunnels   map[index]*vxlan.VxlanTunnelV2Details
	gres      map[index]*gre.GreTunnelDetails
	ipips     map[index]*ipip.IpipTunnelDetails
	wgs       map[index]*wireguard.WireguardInterfaceDetails
	memifs    map[index]*memif.MemifDetails
	sockets   map[index]*memif.MemifSocketFilenameDetails // by their numbers
	bonds     map[index]*bond.SwBondInterfaceDetails
	members   map[index][]*bond.SwMemberInterfaceDetails // by the index of the bond
	bondOf    map[index]index                            // of members
	lenders   map[index]*ip.IPUnnumberedDetails
	clients   map[index]*dhcp.DHCPClientDetails
	addrs     map[index][]netip.Prefix
	vrfs      map[index][2]uint32           // of IPv4 and IPv6
	locals    map[index]ip_types.IP6Address // if wanted
	queues    map[index][]*rxQueue
	broken    map[index]bool  // network cards that could not be initialized
	dead      map[string]bool // TAPs without far ends, by VPP's names
	// attached tells if an AF_PACKET interface still has its device.
	attached func(device string, linux string) bool
}

// byIndex waits for a dump, and returns the details by the index of their interface:
// nothing if the plugin that has them is not loaded.
func byIndex[D any, M interface {
	*D
	api.Message
}](ctx context.Context, d *pendingDump[D, M], indexOf func(M) index) (map[index]M, error) {
	all, err := d.wait(ctx)
	if errors.Is(err, kvscheduler.ErrUnsupported) {
		return nil, nil
	}
	m := make(map[index]M, len(all))
	for _, d := range all {
		m[indexOf(d)] = d
	}
	return m, err
}

// reading starts a dump, and returns what waits for it and keeps its details.
func reading[D any, M interface {
	*D
	api.Message
}](ctx context.Context, v *VSwitch, m *module, req api.Message, into *map[index]M, indexOf func(M) index) func() error {
	d := startDump[D, M](ctx, v, m, req)
	return func() (err error) {
		*into, err = byIndex(ctx, d, indexOf)
		return err
	}
}

// takeInventory reads everything in rounds: what there is, and then what belongs to each
// interface of ours.
func (v interfaces) takeInventory(ctx context.Context, expected []*vpp_interfaces.Interface) (*inventory, error) {
	inv := &inventory{v: v, expected: map[string]*vpp_interfaces.Interface{}, names: map[index]string{}, locals: map[index]ip_types.IP6Address{}, queues: map[index][]*rxQueue{}}
	for _, iface := range expected {
		inv.expected[iface.GetName()] = iface
	}
	if err := inv.readKinds(ctx); err != nil {
		return nil, err
	}
	if err := errors.Join(inv.readMembers(ctx), inv.readAddresses(ctx)); err != nil {
		return nil, err
	}
	var err error
	if inv.broken, err = v.brokenNICs(ctx, inv.details); err != nil {
		return nil, err
	}
	if len(inv.afPackets) > 0 {
		inv.attached = v.attachments()
	}
	if len(inv.taps) > 0 {
		inv.dead = v.deadTaps(ctx)
	}
	return inv, nil
}

// readKinds reads all interfaces, and what there is of each kind.
func (inv *inventory) readKinds(ctx context.Context) (err error) {
	v := inv.v.VSwitch
	interfaces := v.startInterfaces(ctx)
	queues := startReadingRxQueues(ctx, v)
	var errs []error
	for _, wait := range []func() error{
		reading(ctx, v, tapModule, &tapv2.SwInterfaceTapV2Dump{SwIfIndex: noIndex}, &inv.taps,
			func(d *tapv2.SwInterfaceTapV2Details) index { return index(d.SwIfIndex) }),
		reading(ctx, v, afPacketModule, &af_packet.AfPacketDump{}, &inv.afPackets,
			func(d *af_packet.AfPacketDetails) index { return d.SwIfIndex }),
		reading(ctx, v, vxlanModule, &vxlan.VxlanTunnelV2Dump{SwIfIndex: noIndex}, &inv.tunnels,
			func(d *vxlan.VxlanTunnelV2Details) index { return d.SwIfIndex }),
		reading(ctx, v, greModule, &gre.GreTunnelDump{SwIfIndex: noIndex}, &inv.gres,
			func(d *gre.GreTunnelDetails) index { return d.Tunnel.SwIfIndex }),
		reading(ctx, v, ipipModule, &ipip.IpipTunnelDump{SwIfIndex: noIndex}, &inv.ipips,
			func(d *ipip.IpipTunnelDetails) index { return d.Tunnel.SwIfIndex }),
		reading(ctx, v, wireGuardModule, &wireguard.WireguardInterfaceDump{SwIfIndex: noIndex}, &inv.wgs,
			func(d *wireguard.WireguardInterfaceDetails) index { return d.Interface.SwIfIndex }),
		reading(ctx, v, memifModule, &memif.MemifDump{}, &inv.memifs,
			func(d *memif.MemifDetails) index { return d.SwIfIndex }),
		reading(ctx, v, memifModule, &memif.MemifSocketFilenameDump{}, &inv.sockets,
			func(d *memif.MemifSocketFilenameDetails) index { return index(d.SocketID) }),
		reading(ctx, v, bondModule, &bond.SwBondInterfaceDump{SwIfIndex: noIndex}, &inv.bonds,
			func(d *bond.SwBondInterfaceDetails) index { return d.SwIfIndex }),
		reading(ctx, v, dhcpModule, &dhcp.DHCPClientDump{}, &inv.clients,
			func(d *dhcp.DHCPClientDetails) index { return d.Client.SwIfIndex }),
		reading(ctx, v, addressModule, &ip.IPUnnumberedDump{SwIfIndex: noIndex}, &inv.lenders,
			func(d *ip.IPUnnumberedDetails) index { return d.SwIfIndex }),
	} {
		errs = append(errs, wait())
	}
	if inv.details, err = interfaces.wait(ctx); err != nil {
		return err
	}
	v.ifs.set(inv.details)
	for _, d := range inv.details {
		inv.names[d.SwIfIndex] = logicalName(d)
	}
	rx, err := queues.wait(ctx)
	for _, q := range rx {
		inv.queues[q.SwIfIndex] = append(inv.queues[q.SwIfIndex], q)
	}
	return errors.Join(append(errs, err)...)
}

// readMembers reads the members of all bonds.
func (inv *inventory) readMembers(ctx context.Context) error {
	under := map[index]*pendingDump[bond.SwMemberInterfaceDetails, *bond.SwMemberInterfaceDetails]{}
	for i := range inv.bonds {
		under[i] = startDump[bond.SwMemberInterfaceDetails](ctx, inv.v.VSwitch, bondModule, &bond.SwMemberInterfaceDump{SwIfIndex: i})
	}
	inv.members, inv.bondOf = map[index][]*bond.SwMemberInterfaceDetails{}, map[index]index{}
	for i, d := range under {
		members, err := d.wait(ctx)
		if err != nil {
			return err
		}
		inv.members[i] = members
		for _, m := range members {
			inv.bondOf[m.SwIfIndex] = i
		}
	}
	return nil
}

// readAddresses reads addresses and tables of the interfaces that are ours.
func (inv *inventory) readAddresses(ctx context.Context) error {
	l, err := inv.v.use(addressModule)
	if err != nil {
		return err
	}
	type reads struct {
		addrs  [2]*vppapi.Dump[ip.IPAddressDetails, *ip.IPAddressDetails]
		tables [2]*vppapi.Pending
		local  *vppapi.Pending // nil: no link-local address is wanted
	}
	under := map[index]reads{}
	for _, d := range inv.details {
		if logicalName(d) == "" {
			continue
		}
		var r reads
		for n, v6 := range []bool{false, true} {
			r.addrs[n] = vppapi.StartDump[ip.IPAddressDetails](ctx, l.Conn, &ip.IPAddressDump{SwIfIndex: d.SwIfIndex, IsIPv6: v6})
			r.tables[n] = l.Start(ctx, &interfaces_api.SwInterfaceGetTable{SwIfIndex: d.SwIfIndex, IsIPv6: v6})
		}
		if wantsLinkLocal(inv.expected[logicalName(d)].GetIpAddresses()) {
			r.local = l.Start(ctx, &ip.SwInterfaceIP6GetLinkLocalAddress{SwIfIndex: d.SwIfIndex})
		}
		under[d.SwIfIndex] = r
	}
	inv.addrs, inv.vrfs = make(map[index][]netip.Prefix, len(under)), make(map[index][2]uint32, len(under))
	var failed error
	for i, r := range under {
		var vrfs [2]uint32
		for n := range r.addrs {
			found, err := r.addrs[n].Wait(ctx)
			if err != nil {
				failed = err
			}
			for _, a := range found {
				inv.addrs[i] = append(inv.addrs[i], netipPrefix(ip_types.Prefix(a.Prefix)))
			}
			var table interfaces_api.SwInterfaceGetTableReply
			err = r.tables[n].Wait(ctx, &table)
			if err != nil && !vppapi.Refused(err, api.INVALID_SW_IF_INDEX) { // it is gone since then
				failed = err
			}
			vrfs[n] = table.VrfID
		}
		inv.vrfs[i] = vrfs
		if r.local == nil {
			continue
		}
		var local ip.SwInterfaceIP6GetLinkLocalAddressReply
		if err := r.local.Wait(ctx, &local); err == nil { // else it has none
			inv.locals[i] = local.IP
		}
	}
	return failed
}
