package vswitch

import (
	"context"
	"net/netip"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
)

// Capabilities are differences between vswitches that affect requests.
type Capabilities struct {
	// HostStackShared: the interfaces of the vswitch are in the network stack of the host, so no
	// interconnect between the two is needed.
	HostStackShared bool
	// MultipleVRFs: pods should have a separate VRF, and NAT works between VRFs. Interfaces and
	// routes can use tables other than 0 in any case.
	MultipleVRFs bool
	// IPv6SourceNAT: source NAT of IPv6 by interface (NAT66).
	IPv6SourceNAT bool
	// IPv6DNAT: destination NAT of IPv6 (DNAT66).
	IPv6DNAT bool
	// ClientScopes: mappings of DNat44 and DNat66 can apply to clients inside, outside, or in
	// source_ranges only.
	ClientScopes bool
	// ResetsConnections: reset_removed of mappings of DNat44 and DNat66 has an effect.
	ResetsConnections bool
	// TAPs: the vswitch supports TAP interfaces. Otherwise, a VETH pair and AF_PACKET connect it to
	// namespaces of the host.
	TAPs bool
	// SourceGuards: the vswitch can restrict received packets.
	SourceGuards bool
	// ConnectionLimits: source guards can limit connections.
	ConnectionLimits bool
	// Filter: the vswitch supports policies (Filter).
	Filter bool
	// SegmentRouting: the vswitch supports SRv6.
	SegmentRouting bool
}

// VSwitch is everything that a vswitch offers. The package documentation lists the promises of all
// methods.
type VSwitch interface {
	Capabilities() Capabilities
	SRv6() SRv6
	Features

	Interfaces() Interfaces
	// States are the actual states of interfaces.
	States() States
	Bridges() Bridges
	FIB() FIB
	Routes() Routes
	Neighbours() Neighbours
	VRFs() VRFs
	NAT() NAT
	NAT66() NAT66
	DNAT66() DNAT66
	// ServiceNetworks describe the node for service mappings: at most one value.
	ServiceNetworks() Values[*contiv_nat.ServiceNetwork]
	ACLs() ACLs
	Filter() Filter

	// Watch reports changes by other parties to objects that were created or listed as expected
	// through this VSwitch: a reason, for people, and the northbound keys of values that may no
	// longer be as requested. One report may cover several changes. Reported keys may turn out to
	// be unchanged. No keys at all mean all values, as after a restart of the vswitch.
	//
	// Watch returns as soon as later changes will be reported, or with an error. Reports end with
	// ctx. report is never called concurrently and must not block for long.
	Watch(ctx context.Context, report func(reason string, keys ...string)) error

	// WatchLeases registers an observer of new, changed and lost (nil) DHCP leases. It is called
	// before the first DHCP client is set. report is never called concurrently for one interface
	// and must not block.
	WatchLeases(report func(iface string, lease *vpp_interfaces.DHCPLease))

	// Close ends Watch and releases resources. The vswitch keeps forwarding.
	Close() error
}

// Interfaces are the interfaces of the vswitch, by logical name.
type Interfaces interface {
	// Create creates the interface with its type-specific parameters, state, MAC and MTU (bytes; 0:
	// the default). Other methods set addresses, VRF and unnumbered mode. An existing device (DPDK,
	// AF_PACKET) must exist; if it does not, the error may be temporary. The far end of a TAP is
	// created down and without addresses in tap.host_namespace, which names no microservice at this
	// point. List reports a difference if the far end, or the interface made of it, is gone.
	Create(ctx context.Context, iface *vpp_interfaces.Interface) error
	// Update changes state, MAC and MTU as far as they differ.
	Update(ctx context.Context, old, new *vpp_interfaces.Interface) error
	// Delete removes the interface. Existing devices are released, neither deleted nor set down.
	Delete(ctx context.Context, iface *vpp_interfaces.Interface) error

	// List returns all interfaces, with their actual addresses, VRF and unnumbered mode. Parameters
	// that the vswitch cannot read back, and names that it does not store, come from the expected
	// values. An interface with an unknown logical name gets a name that no northbound value has.
	List(ctx context.Context, expected []*vpp_interfaces.Interface) ([]*vpp_interfaces.Interface, error)
	// Find returns the expected interfaces that exist, like List.
	Find(ctx context.Context, expected []*vpp_interfaces.Interface) ([]*vpp_interfaces.Interface, error)

	// AddAddress assigns the address with its prefix length. It leaves a previous address of an
	// existing device unchanged.
	AddAddress(ctx context.Context, iface string, addr netip.Prefix) error
	// DeleteAddress removes the address if Contiv assigned it.
	DeleteAddress(ctx context.Context, iface string, addr netip.Prefix) error

	// SetVRF moves the interface into a VRF for the IP versions. Addresses are assigned after it,
	// and removed before.
	SetVRF(ctx context.Context, iface string, vrf uint32, v IPVersions) error
	// UnsetVRF moves the interface back into VRF 0.
	UnsetVRF(ctx context.Context, iface string, vrf uint32, v IPVersions) error

	// SetDHCPClient starts a DHCP client, which obtains and keeps an IPv4 address and routes. It
	// does not wait for a lease. It follows SetVRF.
	SetDHCPClient(ctx context.Context, iface string) error
	// UnsetDHCPClient stops the client and releases the lease.
	UnsetDHCPClient(ctx context.Context, iface string) error
	// Leases returns the current leases.
	Leases(ctx context.Context) ([]*vpp_interfaces.DHCPLease, error)

	// SetUnnumbered makes the interface use the current addresses and VRFs of the lender.
	SetUnnumbered(ctx context.Context, iface, lender string) error
	// UnsetUnnumbered reverses SetUnnumbered.
	UnsetUnnumbered(ctx context.Context, iface string) error

	// AddBondMember makes an existing interface carry only frames of an existing bond.
	AddBondMember(ctx context.Context, bond string, member *vpp_interfaces.BondLink_BondedInterface) error
	// RemoveBondMember reverses AddBondMember: the interface matches its own value again.
	RemoveBondMember(ctx context.Context, bond string, member *vpp_interfaces.BondLink_BondedInterface) error

	// SetIP6ND makes the interface accept addresses, default routes, or both, from router
	// advertisements. It does not wait for them.
	SetIP6ND(ctx context.Context, iface string, nd *vpp_interfaces.Interface_IP6ND) error
	// UnsetIP6ND reverses SetIP6ND.
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
	// Create creates the bridge domain, without its interfaces.
	Create(ctx context.Context, bd *vpp_l2.BridgeDomain) error
	// Update changes the ARP termination table, and records the changed list of interfaces. No other
	// parameter changes.
	Update(ctx context.Context, old, new *vpp_l2.BridgeDomain) error
	// Delete removes the bridge domain; its interfaces stay.
	Delete(ctx context.Context, bd *vpp_l2.BridgeDomain) error
	// List returns all bridge domains with the interfaces that are correctly bound to them.
	List(ctx context.Context, expected []*vpp_l2.BridgeDomain) ([]*vpp_l2.BridgeDomain, error)

	// Bind adds an existing interface to an existing bridge domain.
	Bind(ctx context.Context, bd string, iface *vpp_l2.BridgeDomain_Interface) error
	// Unbind removes it.
	Unbind(ctx context.Context, bd string, iface *vpp_l2.BridgeDomain_Interface) error
}

// FIB holds the configured L2 forwarding entries, by bridge domain and MAC, without learned entries.
type FIB interface {
	// Create sets the entry atomically. The interface is bound to the domain.
	Create(ctx context.Context, entry *vpp_l2.FIBEntry) error
	Delete(ctx context.Context, entry *vpp_l2.FIBEntry) error
	List(ctx context.Context, expected []*vpp_l2.FIBEntry) ([]*vpp_l2.FIBEntry, error)
}

// Routes are the routes, by VRF, destination, next hop and outgoing interface. Routes with the same
// VRF, destination and preference are paths of one multipath route, with their weights (0 and 1 are
// equal).
type Routes interface {
	// Create adds the route atomically. It does not replace a foreign route to the same
	// destination; the error names it.
	Create(ctx context.Context, route *vpp_l3.Route) error
	Delete(ctx context.Context, route *vpp_l3.Route) error
	List(ctx context.Context, expected []*vpp_l3.Route) ([]*vpp_l3.Route, error)
	// Find returns the expected routes that exist, like List.
	Find(ctx context.Context, expected []*vpp_l3.Route) ([]*vpp_l3.Route, error)
}

// Neighbours are the configured ARP and ND entries, by interface and address.
type Neighbours interface {
	// Create sets the entry, and replaces a learned one.
	Create(ctx context.Context, entry *vpp_l3.ARPEntry) error
	Delete(ctx context.Context, entry *vpp_l3.ARPEntry) error
	List(ctx context.Context, expected []*vpp_l3.ARPEntry) ([]*vpp_l3.ARPEntry, error)
	// Find returns the expected entries that exist, like List.
	Find(ctx context.Context, expected []*vpp_l3.ARPEntry) ([]*vpp_l3.ARPEntry, error)
}

// VRFs are the VRF tables, by number and IP version. Tables 0 always exist: Create only records
// one, and Delete resets its parameters.
type VRFs interface {
	Create(ctx context.Context, table *vpp_l3.VrfTable) error
	// Update changes the label and the flow hashing.
	Update(ctx context.Context, old, new *vpp_l3.VrfTable) error
	Delete(ctx context.Context, table *vpp_l3.VrfTable) error
	// List returns tables 0 only if they are expected.
	List(ctx context.Context, expected []*vpp_l3.VrfTable) ([]*vpp_l3.VrfTable, error)
}

// NAT66 is source NAT of IPv6 by interface. Changes are atomic; translated flows continue.
type NAT66 interface {
	// Create translates the source of packets forwarded to the interface to the address. The node's
	// own packets are not translated.
	Create(ctx context.Context, source *contiv_nat.SourceNAT66) error
	Delete(ctx context.Context, source *contiv_nat.SourceNAT66) error
	List(ctx context.Context, expected []*contiv_nat.SourceNAT66) ([]*contiv_nat.SourceNAT66, error)
}
