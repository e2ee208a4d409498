package interfaces

import (
	"context"
	"errors"
	"net/netip"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/af_packet"
	"go.fd.io/govpp/binapi/bond"
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

// inventory holds the data from which the vswitch's interfaces are described.
type inventory struct {
	v        *Interfaces
	details  []*interfaces_api.SwInterfaceDetails
	expected map[string]*vpp_interfaces.Interface
	names    map[ownership.Index]string

	taps      map[ownership.Index]*tapv2.SwInterfaceTapV2Details
	afPackets map[ownership.Index]*af_packet.AfPacketDetails
	tunnels   map[ownership.Index]*vxlan.VxlanTunnelV2Details
	gres      map[ownership.Index]*gre.GreTunnelDetails
	ipips     map[ownership.Index]*ipip.IpipTunnelDetails
	wgs       map[ownership.Index]*wireguard.WireguardInterfaceDetails
	memifs    map[ownership.Index]*memif.MemifDetails
	sockets   map[ownership.Index]*memif.MemifSocketFilenameDetails // by their numbers
	bonds     map[ownership.Index]*bond.SwBondInterfaceDetails
	members   map[ownership.Index][]*bond.SwMemberInterfaceDetails // by the index of the bond
	bondOf    map[ownership.Index]ownership.Index                  // of members
	lenders   map[ownership.Index]*ip.IPUnnumberedDetails
	leased    map[ownership.Index]netip.Prefix // by DHCP clients; zero: nothing yet
	addrs     map[ownership.Index][]netip.Prefix
	vrfs      map[ownership.Index][2]uint32           // of IPv4 and IPv6
	locals    map[ownership.Index]ip_types.IP6Address // if wanted
	queues    map[ownership.Index][]*rxQueue
	broken    map[ownership.Index]bool // network cards with failed initialization
	dead      map[string]bool          // TAPs without far ends, by VPP's names
	// attached reports whether an AF_PACKET interface still has its device.
	attached func(device string, linux string) bool
}

// reading starts a dump and returns a function that waits for it and stores its details.
func reading[D any, M interface {
	*D
	api.Message
}](ctx context.Context, s *session.Session, m *session.Module, req api.Message, into *map[ownership.Index]M, indexOf func(M) ownership.Index) func() error {
	d := session.StartDump[D, M](ctx, s, m, req)
	return func() (err error) {
		*into, err = session.ByKey(ctx, d, indexOf)
		return err
	}
}

// takeInventory reads everything in two rounds: the interfaces, then the details of each of ours.
func (v *Interfaces) takeInventory(ctx context.Context, expected []*vpp_interfaces.Interface) (*inventory, error) {
	inv := &inventory{v: v, expected: map[string]*vpp_interfaces.Interface{}, names: map[ownership.Index]string{}, locals: map[ownership.Index]ip_types.IP6Address{}, queues: map[ownership.Index][]*rxQueue{}}
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

// readKinds reads all interfaces and the parameters of each kind.
func (inv *inventory) readKinds(ctx context.Context) (err error) {
	v := inv.v
	interfaces := v.ifs.Start(ctx)
	queues := startReadingRxQueues(ctx, v.vpp)
	clients := v.clients.Start(ctx)
	var errs []error
	for _, wait := range []func() error{
		reading(ctx, v.vpp, tapModule, &tapv2.SwInterfaceTapV2Dump{SwIfIndex: ownership.NoIndex}, &inv.taps,
			func(d *tapv2.SwInterfaceTapV2Details) ownership.Index { return ownership.Index(d.SwIfIndex) }),
		reading(ctx, v.vpp, afPacketModule, &af_packet.AfPacketDump{}, &inv.afPackets,
			func(d *af_packet.AfPacketDetails) ownership.Index { return d.SwIfIndex }),
		reading(ctx, v.vpp, vxlanModule, &vxlan.VxlanTunnelV2Dump{SwIfIndex: ownership.NoIndex}, &inv.tunnels,
			func(d *vxlan.VxlanTunnelV2Details) ownership.Index { return d.SwIfIndex }),
		reading(ctx, v.vpp, greModule, &gre.GreTunnelDump{SwIfIndex: ownership.NoIndex}, &inv.gres,
			func(d *gre.GreTunnelDetails) ownership.Index { return d.Tunnel.SwIfIndex }),
		reading(ctx, v.vpp, ipipModule, &ipip.IpipTunnelDump{SwIfIndex: ownership.NoIndex}, &inv.ipips,
			func(d *ipip.IpipTunnelDetails) ownership.Index { return d.Tunnel.SwIfIndex }),
		reading(ctx, v.vpp, wireGuardModule, &wireguard.WireguardInterfaceDump{SwIfIndex: ownership.NoIndex}, &inv.wgs,
			func(d *wireguard.WireguardInterfaceDetails) ownership.Index { return d.Interface.SwIfIndex }),
		reading(ctx, v.vpp, memifModule, &memif.MemifDump{}, &inv.memifs,
			func(d *memif.MemifDetails) ownership.Index { return d.SwIfIndex }),
		reading(ctx, v.vpp, memifModule, &memif.MemifSocketFilenameDump{}, &inv.sockets,
			func(d *memif.MemifSocketFilenameDetails) ownership.Index { return ownership.Index(d.SocketID) }),
		reading(ctx, v.vpp, bondModule, &bond.SwBondInterfaceDump{SwIfIndex: ownership.NoIndex}, &inv.bonds,
			func(d *bond.SwBondInterfaceDetails) ownership.Index { return d.SwIfIndex }),
		reading(ctx, v.vpp, addressModule, &ip.IPUnnumberedDump{SwIfIndex: ownership.NoIndex}, &inv.lenders,
			func(d *ip.IPUnnumberedDetails) ownership.Index { return d.SwIfIndex }),
	} {
		errs = append(errs, wait())
	}
	if inv.details, err = interfaces.Wait(ctx); err != nil {
		return err
	}
	v.ifs.Set(inv.details)
	for _, d := range inv.details {
		inv.names[d.SwIfIndex] = ownership.LogicalName(d)
	}
	var dhcpErr error
	inv.leased, dhcpErr = clients()
	errs = append(errs, dhcpErr)
	rx, err := queues.Wait(ctx)
	for _, q := range rx {
		inv.queues[q.SwIfIndex] = append(inv.queues[q.SwIfIndex], q)
	}
	return errors.Join(append(errs, err)...)
}

// readMembers reads the members of all bonds.
func (inv *inventory) readMembers(ctx context.Context) error {
	under := map[ownership.Index]*session.Pending[bond.SwMemberInterfaceDetails, *bond.SwMemberInterfaceDetails]{}
	for i := range inv.bonds {
		under[i] = session.StartDump[bond.SwMemberInterfaceDetails](ctx, inv.v.vpp, bondModule, &bond.SwMemberInterfaceDump{SwIfIndex: i})
	}
	inv.members, inv.bondOf = map[ownership.Index][]*bond.SwMemberInterfaceDetails{}, map[ownership.Index]ownership.Index{}
	for i, d := range under {
		members, err := d.Wait(ctx)
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

// readAddresses reads addresses and tables of our interfaces.
func (inv *inventory) readAddresses(ctx context.Context) error {
	l, err := inv.v.vpp.Use(addressModule)
	if err != nil {
		return err
	}
	type reads struct {
		addrs  [2]*vppapi.Dump[ip.IPAddressDetails, *ip.IPAddressDetails]
		tables [2]*vppapi.Pending
		local  *vppapi.Pending // nil if no link-local address is wanted
	}
	under := map[ownership.Index]reads{}
	for _, d := range inv.details {
		if ownership.LogicalName(d) == "" {
			continue
		}
		var r reads
		for n, v6 := range []bool{false, true} {
			r.addrs[n] = vppapi.StartDump[ip.IPAddressDetails](ctx, l.Conn, &ip.IPAddressDump{SwIfIndex: d.SwIfIndex, IsIPv6: v6})
			r.tables[n] = l.Start(ctx, &interfaces_api.SwInterfaceGetTable{SwIfIndex: d.SwIfIndex, IsIPv6: v6})
		}
		if wantsLinkLocal(inv.expected[ownership.LogicalName(d)].GetIpAddresses()) {
			r.local = l.Start(ctx, &ip.SwInterfaceIP6GetLinkLocalAddress{SwIfIndex: d.SwIfIndex})
		}
		under[d.SwIfIndex] = r
	}
	inv.addrs, inv.vrfs = make(map[ownership.Index][]netip.Prefix, len(under)), make(map[ownership.Index][2]uint32, len(under))
	var failed error
	for i, r := range under {
		var vrfs [2]uint32
		for n := range r.addrs {
			found, err := r.addrs[n].Wait(ctx)
			if err != nil {
				failed = err
			}
			for _, a := range found {
				inv.addrs[i] = append(inv.addrs[i], convert.NetipPrefix(ip_types.Prefix(a.Prefix)))
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
