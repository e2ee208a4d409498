package vswitch

import (
	"context"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
)

// OnlyPlainMappings returns an error, which says what to do instead, if a mapping has
// fields that a vswitch does not implement.
func OnlyPlainMappings(mappings []*vpp_nat.DNat44_StaticMapping) error {
	for _, m := range mappings {
		switch {
		case m.GetClients() != vpp_nat.DNat44_StaticMapping_ALL:
			return Unsupported("mappings for clients %v only: this vswitch does not tell clients apart; use ALL", m.GetClients())
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

// DNAT66 is the translation of destinations of IPv6 packets, whichever interface they
// enter through, and of those that the node itself sends if Capabilities.HostStackShared
// says that it can.
type DNAT66 interface {
	// Set makes or changes the mappings of values, all of them or none. An address with
	// protocol and port has one mapping: a second one is an error.
	//
	// A connection goes to one of the local addresses, each with its probability (see
	// Slots), and stays there; session affinity, and what becomes of connections when a
	// mapping changes, are as for NAT.SetDNAT. With twice_nat, the local address sees
	// twice_nat_ip as the client.
	Set(ctx context.Context, values ...*contiv_nat.DNat66) error
	// Remove removes the mappings of values, by their labels.
	Remove(ctx context.Context, values ...*contiv_nat.DNat66) error
	// List returns all values; missing or damaged objects show as differences from the expected
	// values.
	List(ctx context.Context, expected []*contiv_nat.DNat66) ([]*contiv_nat.DNat66, error)
}

// AllVRFs as the VRF of an address pool: for packets of every VRF.
const AllVRFs = ^uint32(0)

// NAT is IPv4 address translation. All its changes are atomic; flows that are
// being translated go on.
type NAT interface {
	NATGlobal
	NATInterfaces
	NATPools
	DNAT
	NATVRFs
}

// NATGlobal turns NAT on and off.
type NATGlobal interface {
	// Enable turns NAT on, or changes its global parameters, but for the lists of
	// interfaces and addresses, which have calls of their own. All else exists only
	// while NAT is on. Without forwarding, connections that enter through an outside
	// interface and are not translated are not forwarded.
	Enable(ctx context.Context, global *vpp_nat.Nat44Global) error
	// Disable turns NAT off.
	Disable(ctx context.Context) error
	// Global returns nil when NAT is off or not in working order. It may return another value than the expected one
	// if Enable puts NAT in order again while everything else stays.
	Global(ctx context.Context, expected *vpp_nat.Nat44Global) (*vpp_nat.Nat44Global, error)
}

// NATInterfaces are the interfaces that NAT works on.
type NATInterfaces interface {
	// AddInterface makes NAT work on an interface, or changes its part.
	//
	// Packets that enter through an outside interface, with or without the output
	// feature, and those that the node itself sends are translated to other
	// destinations. Packets that are forwarded to an outside interface with the
	// output feature get a source from a pool. So do those from an interface that
	// is inside only to one that is outside without the feature. Packets of the node
	// itself keep their source.
	AddInterface(ctx context.Context, iface *vpp_nat.Nat44Interface) error
	RemoveInterface(ctx context.Context, iface *vpp_nat.Nat44Interface) error
	ListInterfaces(ctx context.Context, expected []*vpp_nat.Nat44Interface) ([]*vpp_nat.Nat44Interface, error)

	// AddGlobalInterface makes NAT work on an interface as AddInterface does, for
	// the list of the global value. One may be in the list twice, inside and outside.
	AddGlobalInterface(ctx context.Context, iface *vpp_nat.Nat44Global_Interface) error
	RemoveGlobalInterface(ctx context.Context, iface *vpp_nat.Nat44Global_Interface) error
}

// NATPools are the addresses that become sources.
type NATPools interface {
	// AddPool offers addresses as sources, for twice-NAT or else for what leaves.
	// What comes from one source gets the same address each time.
	AddPool(ctx context.Context, pool *vpp_nat.Nat44AddressPool) error
	RemovePool(ctx context.Context, pool *vpp_nat.Nat44AddressPool) error
	ListPools(ctx context.Context, expected []*vpp_nat.Nat44AddressPool) ([]*vpp_nat.Nat44AddressPool, error)

	// AddGlobalAddress is AddPool for the list of the global value.
	AddGlobalAddress(ctx context.Context, addr *vpp_nat.Nat44Global_Address) error
	RemoveGlobalAddress(ctx context.Context, addr *vpp_nat.Nat44Global_Address) error
}

// DNAT translates destinations of connections.
type DNAT interface {
	// SetDNAT makes or changes the mappings of values, all of them or none; but a single value
	// that exists and asks for what another one has may give up what it does not ask for any
	// more, and fail: so two values can take from each other what they had. An
	// address with protocol and port has one mapping: a second one is an error.
	//
	//   - A connection to the external address goes to one of the local addresses,
	//     each with its probability (see Slots), and stays there. With a session
	//     affinity, other connections of the client within so many seconds after
	//     the last one go to the same, as long as it is one of the mapping.
	//   - Ports 0: all connections, but those to ports with a mapping of their own;
	//     with ICMP, its packets only.
	//   - An external interface stands for the addresses that it has at any time.
	//   - Twice-NAT: the source becomes twice_nat_pool_ip or an address of a pool for
	//     twice-NAT: always (ENABLED), or when the client is the chosen local address
	//     itself (SELF). Without such a pool it stays as it is.
	//   - Identities are not translated: neither as destination nor as source.
	//
	// Connections to local addresses that stay go on when a mapping changes. Those
	// of TCP go on in any case, unless reset_removed says otherwise (VPP: of those with a socket on the node); all others to what is no local address any more end,
	// and so do those that began when there was no mapping: the next packet of the
	// client meets the mappings. (VPP: TCP ends as well; docs/vpp.md has all that
	// is different there.)
	SetDNAT(ctx context.Context, values ...*vpp_nat.DNat44) error
	// RemoveDNAT removes the mappings of values, by their labels.
	RemoveDNAT(ctx context.Context, values ...*vpp_nat.DNat44) error
	// ListDNAT returns all values; missing or damaged objects show as differences from the expected
	// values.
	ListDNAT(ctx context.Context, expected []*vpp_nat.DNat44) ([]*vpp_nat.DNat44, error)
}

// NATVRFs are the VRFs between which packets are translated.
type NATVRFs interface {
	// AddVRFTable says between which VRFs packets are translated, AddVRFRoute adds
	// one to them.
	AddVRFTable(ctx context.Context, table *vpp_nat.Nat44VrfTable) error
	RemoveVRFTable(ctx context.Context, table *vpp_nat.Nat44VrfTable) error
	ListVRFTables(ctx context.Context, expected []*vpp_nat.Nat44VrfTable) ([]*vpp_nat.Nat44VrfTable, error)
	AddVRFRoute(ctx context.Context, route *vpp_nat.Nat44VrfRoute) error
	RemoveVRFRoute(ctx context.Context, route *vpp_nat.Nat44VrfRoute) error
	ListVRFRoutes(ctx context.Context, expected []*vpp_nat.Nat44VrfRoute) ([]*vpp_nat.Nat44VrfRoute, error)
}
