package vswitch

import (
	"context"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
)

// OnlyPlainMappings returns an error, with an alternative, if a mapping uses fields that a vswitch
// does not support.
func OnlyPlainMappings(mappings []*vpp_nat.DNat44_StaticMapping) error {
	for _, m := range mappings {
		switch {
		case m.GetClients() != vpp_nat.DNat44_StaticMapping_ALL:
			return Unsupported("mappings for clients %v only: this vswitch does not distinguish clients: use ALL", m.GetClients())
		case len(m.GetLocalIps()) == 0:
			return Unsupported("mappings without local_ips: this vswitch refuses nothing; leave the mapping out")
		case len(m.GetSourceRanges()) > 0:
			return Unsupported("source_ranges: this vswitch does not look at the source; use access lists")
		case m.GetMasqueradeOutside():
			return Unsupported("masquerade_outside: use twice_nat ENABLED")
		case m.GetTwiceNat() == vpp_nat.DNat44_StaticMapping_SELF && m.GetTwiceNatPoolIp() != "":
			return Unsupported("twice_nat_pool_ip with twice_nat SELF: leave it out, the pool says it")
		}
	}
	return nil
}

// DNAT66 translates the destinations of IPv6 packets from all interfaces, and if
// Capabilities.HostStackShared is set, of the node's own packets.
type DNAT66 interface {
	// Set creates or changes the mappings of values, all of them or none. An address with protocol
	// and port has one mapping: a second one is an error.
	//
	// A connection goes to one of the local addresses, each with its probability (see Slots), and
	// stays there. Session affinity, and the effect of changes on connections, are as for
	// DNAT.SetDNAT. With twice_nat, the local address sees twice_nat_ip as the client.
	Set(ctx context.Context, values ...*contiv_nat.DNat66) error
	// Remove removes the mappings of values, by label.
	Remove(ctx context.Context, values ...*contiv_nat.DNat66) error
	// List returns all values; missing or damaged objects show as differences from the expected
	// values.
	List(ctx context.Context, expected []*contiv_nat.DNat66) ([]*contiv_nat.DNat66, error)
}

// AllVRFs is the VRF of an address pool for packets of every VRF.
const AllVRFs = ^uint32(0)

// NAT is IPv4 address translation. All its changes are atomic; translated flows continue.
type NAT interface {
	NATGlobal
	NATInterfaces
	NATPools
	DNAT
	NATVRFs
}

// NATGlobal enables and disables NAT.
type NATGlobal interface {
	// Enable enables NAT, or changes its global parameters except for the lists of interfaces and
	// addresses. All other NAT values require it. Without forwarding, connections that enter
	// through an outside interface without translation are dropped.
	Enable(ctx context.Context, global *vpp_nat.Nat44Global) error
	Disable(ctx context.Context) error
	// Global returns nil when NAT is disabled or damaged. It may return another value than the
	// expected one if Enable repairs NAT without effect on other values.
	Global(ctx context.Context, expected *vpp_nat.Nat44Global) (*vpp_nat.Nat44Global, error)
}

// NATInterfaces are the interfaces with NAT.
type NATInterfaces interface {
	// AddInterface enables NAT on an interface, or changes its role.
	//
	// Destination NAT applies to packets that enter through an outside interface, with or without
	// the output feature, and to the node's own packets. Source NAT from a pool applies to packets
	// forwarded to an outside interface with the output feature, and to packets from an interface
	// that is only inside to one that is outside without the feature. It does not apply to the
	// node's own packets.
	AddInterface(ctx context.Context, iface *vpp_nat.Nat44Interface) error
	RemoveInterface(ctx context.Context, iface *vpp_nat.Nat44Interface) error
	ListInterfaces(ctx context.Context, expected []*vpp_nat.Nat44Interface) ([]*vpp_nat.Nat44Interface, error)

	// AddGlobalInterface does the same for the list of the global value. An interface may be in the
	// list twice, inside and outside.
	AddGlobalInterface(ctx context.Context, iface *vpp_nat.Nat44Global_Interface) error
	RemoveGlobalInterface(ctx context.Context, iface *vpp_nat.Nat44Global_Interface) error
}

// NATPools are the source addresses of NAT.
type NATPools interface {
	// AddPool adds source addresses, for twice-NAT or otherwise for outgoing packets. Packets from
	// one source get the same address each time.
	AddPool(ctx context.Context, pool *vpp_nat.Nat44AddressPool) error
	RemovePool(ctx context.Context, pool *vpp_nat.Nat44AddressPool) error
	ListPools(ctx context.Context, expected []*vpp_nat.Nat44AddressPool) ([]*vpp_nat.Nat44AddressPool, error)

	// AddGlobalAddress is AddPool for the list of the global value.
	AddGlobalAddress(ctx context.Context, addr *vpp_nat.Nat44Global_Address) error
	RemoveGlobalAddress(ctx context.Context, addr *vpp_nat.Nat44Global_Address) error
}

// DNAT translates the destinations of connections.
type DNAT interface {
	// SetDNAT creates or changes the mappings of values, all of them or none. If a single existing
	// value conflicts with another, the call may remove its obsolete mappings and fail, so that two
	// values can exchange mappings. An address with protocol and port has one mapping: a second one
	// is an error.
	//
	//   - A connection to the external address goes to one of the local addresses,
	//     each with its probability (see Slots), and stays there. With session
	//     affinity, further connections of the client within the timeout use the
	//     same address, as long as it belongs to the mapping.
	//   - Port 0 matches all connections, except to ports with a separate mapping;
	//     with ICMP, only ICMP packets.
	//   - An external interface represents its current addresses.
	//   - Twice-NAT: the source becomes twice_nat_pool_ip or an address of a
	//     twice-NAT pool: always (ENABLED), or if the client is the chosen local
	//     address itself (SELF). Without a pool it stays unchanged.
	//   - Identities are not translated: neither as destination nor as source.
	//
	// When a mapping changes, connections to remaining local addresses continue. TCP connections to
	// removed addresses continue, too, unless reset_removed is set (VPP: for connections with a
	// socket on the node). Other connections to removed addresses end, and so do connections opened
	// before the mapping existed: the next packet of the client uses the new mappings. (VPP: TCP
	// ends, too; docs/design/vpp.md lists all differences.)
	SetDNAT(ctx context.Context, values ...*vpp_nat.DNat44) error
	// RemoveDNAT removes the mappings of values, by label.
	RemoveDNAT(ctx context.Context, values ...*vpp_nat.DNat44) error
	// ListDNAT returns all values; missing or damaged objects show as differences from the expected
	// values.
	ListDNAT(ctx context.Context, expected []*vpp_nat.DNat44) ([]*vpp_nat.DNat44, error)
}

// NATVRFs are the VRFs with NAT between them.
type NATVRFs interface {
	// AddVRFTable enables NAT between VRFs, and AddVRFRoute adds one VRF.
	AddVRFTable(ctx context.Context, table *vpp_nat.Nat44VrfTable) error
	RemoveVRFTable(ctx context.Context, table *vpp_nat.Nat44VrfTable) error
	ListVRFTables(ctx context.Context, expected []*vpp_nat.Nat44VrfTable) ([]*vpp_nat.Nat44VrfTable, error)
	AddVRFRoute(ctx context.Context, route *vpp_nat.Nat44VrfRoute) error
	RemoveVRFRoute(ctx context.Context, route *vpp_nat.Nat44VrfRoute) error
	ListVRFRoutes(ctx context.Context, expected []*vpp_nat.Nat44VrfRoute) ([]*vpp_nat.Nat44VrfRoute, error)
}
