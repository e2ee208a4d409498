package vswitch

import (
	"context"
	"net/netip"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
)

// Capabilities are differences between vswitches that what is requested of them
// depends on.
type Capabilities struct {
	// HostStackShared: the interfaces of the vswitch live in the network stack
	// of the host, so no interconnect between the two is needed.
	HostStackShared bool
	// MultipleVRFs: pods are to have a VRF of their own, and NAT works between
	// VRFs. Tables other than 0 exist for interfaces and routes whatever it says.
	MultipleVRFs bool
	// IPv6SourceNAT: sources of IPv6 packets can be translated by interface (NAT66).
	IPv6SourceNAT bool
	// IPv6DNAT: destinations of IPv6 packets can be translated (DNAT66).
	IPv6DNAT bool
	// ClientScopes: mappings of DNat44 and DNat66 may be for clients inside or outside only,
	// or for those of source_ranges.
	ClientScopes bool
	// ResetsConnections: reset_removed of mappings of DNat44 and DNat66 has an effect.
	ResetsConnections bool
	// TAPs: interfaces of the type TAP can be made. Without, a VETH pair and AF_PACKET
	// connect the vswitch with namespaces of the host.
	TAPs bool
	// SourceGuards: what interfaces receive can be restricted.
	SourceGuards bool
	// ConnectionLimits: source guards can limit connections.
	ConnectionLimits bool
	// Filter: connections can be judged (Filter).
	Filter bool
	// SegmentRouting: SRv6 does something.
	SegmentRouting bool
}

// VSwitch is everything that a vswitch offers. The promises that hold for all
// methods are in the package documentation.
type VSwitch interface {
	Capabilities() Capabilities
	SRv6() SRv6
	Features

	Interfaces() Interfaces
	// States are those of the interfaces, whatever was requested.
	States() States
	Bridges() Bridges
	FIB() FIB
	Routes() Routes
	Neighbours() Neighbours
	VRFs() VRFs
	NAT() NAT
	NAT66() NAT66
	DNAT66() DNAT66
	// ServiceNetworks are what mappings know of the node: one value at most.
	ServiceNetworks() Values[*contiv_nat.ServiceNetwork]
	ACLs() ACLs
	Filter() Filter

	// Watch reports changes that others made to objects that were created or
	// listed as expected through this VSwitch: what happened, for people, and
	// the northbound keys whose values may no longer be as requested. Several
	// changes that happen together are one report. It reports too much rather
	// than too little: a reported key may turn out to be unchanged. No keys at all
	// stand for everything, as when the vswitch itself was restarted.
	//
	// Watch returns when it sees changes, or an error if it cannot; it ends with
	// ctx. report is never called concurrently and must not block for long.
	Watch(ctx context.Context, report func(reason string, keys ...string)) error

	// WatchLeases makes the vswitch report each DHCP lease that is obtained, and
	// each change of one; a nil lease says that the interface has none any more. To
	// be called before the first DHCP client is set. report is never called
	// concurrently for one interface and must not block.
	WatchLeases(report func(iface string, lease *vpp_interfaces.DHCPLease))

	// Close ends what Watch started and releases resources. The vswitch keeps
	// forwarding.
	Close() error
}

// Interfaces are the interfaces of the vswitch, by logical name.
type Interfaces interface {
	// Create makes the interface with its type-specific parameters, state, MAC
	// and MTU (bytes; 0: the default). Addresses, VRF and unnumbered mode are
	// set by calls of their own. An existing device (DPDK, AF_PACKET) must be
	// there; if it is not, the error may go away. The far end of a TAP waits in
	// tap.host_namespace, which names no microservice any more, down and without addresses; List reports whether it, or what
	// it became, is not there (any more).
	Create(ctx context.Context, iface *vpp_interfaces.Interface) error
	// Update changes state, MAC and MTU, whatever of them differs.
	Update(ctx context.Context, old, new *vpp_interfaces.Interface) error
	// Delete removes the interface. Existing devices are let go, never removed
	// and not put down.
	Delete(ctx context.Context, iface *vpp_interfaces.Interface) error

	// List returns all interfaces, with their addresses, VRF and unnumbered mode as found.
	// Parameters that the vswitch cannot read back, and names that it does not store, are completed
	// from the expected values. An interface whose logical name is unknown gets a name that no
	// northbound value has.
	List(ctx context.Context, expected []*vpp_interfaces.Interface) ([]*vpp_interfaces.Interface, error)
	// Find returns those of the expected interfaces that exist, like List.
	Find(ctx context.Context, expected []*vpp_interfaces.Interface) ([]*vpp_interfaces.Interface, error)

	// AddAddress assigns the address with its prefix length. An address that an
	// existing device had already is left as it is.
	AddAddress(ctx context.Context, iface string, addr netip.Prefix) error
	// DeleteAddress takes the address away, if Contiv assigned it.
	DeleteAddress(ctx context.Context, iface string, addr netip.Prefix) error

	// SetVRF moves the interface into a VRF, for the IP versions given. Its
	// addresses are assigned after that, and taken away before.
	SetVRF(ctx context.Context, iface string, vrf uint32, v IPVersions) error
	// UnsetVRF moves the interface back into VRF 0.
	UnsetVRF(ctx context.Context, iface string, vrf uint32, v IPVersions) error

	// SetDHCPClient makes the interface obtain an IPv4 address and routes by DHCP,
	// and keep them; it does not wait for that. It comes after SetVRF.
	SetDHCPClient(ctx context.Context, iface string) error
	// UnsetDHCPClient ends that: the lease is given back.
	UnsetDHCPClient(ctx context.Context, iface string) error
	// Leases returns the present leases.
	Leases(ctx context.Context) ([]*vpp_interfaces.DHCPLease, error)

	// SetUnnumbered makes the interface use the addresses and VRFs of the
	// lender as they are now.
	SetUnnumbered(ctx context.Context, iface, lender string) error
	// UnsetUnnumbered ends that.
	UnsetUnnumbered(ctx context.Context, iface string) error

	// AddBondMember makes an existing interface carry frames of an existing bond, and
	// nothing else.
	AddBondMember(ctx context.Context, bond string, member *vpp_interfaces.BondLink_BondedInterface) error
	// RemoveBondMember ends that: the interface is again what its own value says.
	RemoveBondMember(ctx context.Context, bond string, member *vpp_interfaces.BondLink_BondedInterface) error

	// SetIP6ND makes the interface configure itself as IPv6 routers advertise: with
	// addresses, default routes, or both. It does not wait for that.
	SetIP6ND(ctx context.Context, iface string, nd *vpp_interfaces.Interface_IP6ND) error
	// UnsetIP6ND ends that.
	UnsetIP6ND(ctx context.Context, iface string) error
}

// IPVersions is a set of IP versions.
type IPVersions struct{ V4, V6 bool }

// String is v4, v6 or both, as in keys.
func (v IPVersions) String() string {
	switch v {
	case IPVersions{V4: true}:
		return "v4"
	case IPVersions{V6: true}:
		return "v6"
	}
	return "both"
}

// Each returns the versions one by one.
func (v IPVersions) Each() (list []IPVersions) {
	if v.V4 {
		list = append(list, IPVersions{V4: true})
	}
	if v.V6 {
		list = append(list, IPVersions{V6: true})
	}
	return list
}

// Bridges are the bridge domains, by name.
type Bridges interface {
	// Create makes the bridge domain, without its interfaces.
	Create(ctx context.Context, bd *vpp_l2.BridgeDomain) error
	// Update changes the ARP termination table, and takes note of the changed
	// list of interfaces. No other parameter changes.
	Update(ctx context.Context, old, new *vpp_l2.BridgeDomain) error
	// Delete removes the bridge domain; its interfaces stay.
	Delete(ctx context.Context, bd *vpp_l2.BridgeDomain) error
	// List returns all bridge domains with the interfaces bound to them in
	// working order.
	List(ctx context.Context, expected []*vpp_l2.BridgeDomain) ([]*vpp_l2.BridgeDomain, error)

	// Bind puts an existing interface into an existing bridge domain.
	Bind(ctx context.Context, bd string, iface *vpp_l2.BridgeDomain_Interface) error
	// Unbind takes it out.
	Unbind(ctx context.Context, bd string, iface *vpp_l2.BridgeDomain_Interface) error
}

// FIB holds the configured L2 forwarding entries, by bridge domain and MAC;
// learned entries are not among them.
type FIB interface {
	// Create sets the entry atomically. The interface is bound to the domain.
	Create(ctx context.Context, entry *vpp_l2.FIBEntry) error
	Delete(ctx context.Context, entry *vpp_l2.FIBEntry) error
	List(ctx context.Context, expected []*vpp_l2.FIBEntry) ([]*vpp_l2.FIBEntry, error)
}

// Routes are the routes, by VRF, destination, next hop and outgoing interface.
// Routes with the same VRF, destination and preference are paths of one
// multipath route, with their weights (0 and 1 are the same).
type Routes interface {
	// Create adds the route atomically. A foreign route to the same destination is not replaced;
	// the error names it.
	Create(ctx context.Context, route *vpp_l3.Route) error
	Delete(ctx context.Context, route *vpp_l3.Route) error
	List(ctx context.Context, expected []*vpp_l3.Route) ([]*vpp_l3.Route, error)
	// Find returns those of the expected routes that exist, like List.
	Find(ctx context.Context, expected []*vpp_l3.Route) ([]*vpp_l3.Route, error)
}

// Neighbours are the configured ARP and ND entries, by interface and address.
type Neighbours interface {
	// Create sets the entry; one that was learned is replaced.
	Create(ctx context.Context, entry *vpp_l3.ARPEntry) error
	Delete(ctx context.Context, entry *vpp_l3.ARPEntry) error
	List(ctx context.Context, expected []*vpp_l3.ARPEntry) ([]*vpp_l3.ARPEntry, error)
	// Find returns those of the expected entries that exist, like List.
	Find(ctx context.Context, expected []*vpp_l3.ARPEntry) ([]*vpp_l3.ARPEntry, error)
}

// VRFs are the VRF tables, by number and IP version. Tables 0 always exist; to
// create one takes note of it, to delete it resets its parameters.
type VRFs interface {
	Create(ctx context.Context, table *vpp_l3.VrfTable) error
	// Update changes the label and how flows are hashed.
	Update(ctx context.Context, old, new *vpp_l3.VrfTable) error
	Delete(ctx context.Context, table *vpp_l3.VrfTable) error
	// List returns tables 0 only if they are expected.
	List(ctx context.Context, expected []*vpp_l3.VrfTable) ([]*vpp_l3.VrfTable, error)
}

// NAT66 is the translation of sources of IPv6 packets, by interface. Changes are
// atomic; flows that are being translated go on.
type NAT66 interface {
	// Create gives packets that are forwarded to the interface the address as
	// their source; packets of the node itself keep theirs.
	Create(ctx context.Context, source *contiv_nat.SourceNAT66) error
	Delete(ctx context.Context, source *contiv_nat.SourceNAT66) error
	List(ctx context.Context, expected []*contiv_nat.SourceNAT66) ([]*contiv_nat.SourceNAT66, error)
}
