package vswitch

import (
	"fmt"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/netalloc"
	"google.golang.org/protobuf/proto"
)

// Names of the descriptors.
const (
	InterfaceDescriptor    = "vpp-interface"
	AddressDescriptor      = "vpp-interface-address"
	InterfaceVRFDescriptor = "vpp-interface-vrf"
	HasAddressDescriptor   = "vpp-interface-has-address"
	UnnumberedDescriptor   = "vpp-unnumbered-interface"
	DHCPClientDescriptor   = "vpp-dhcp-client"
	DHCPLeaseDescriptor    = "vpp-dhcp"
	LinkStateDescriptor    = "vpp-interface-link-state"
	IP6NDDescriptor        = "vpp-ip6nd"
	BondMemberDescriptor   = "bond-interface"
	BridgeDomainDescriptor = "vpp-bridge-domain"
	BDInterfaceDescriptor  = "vpp-bd-interface"
	FIBDescriptor          = "vpp-l2-fib"
	RouteDescriptor        = "vpp-route"
	ARPDescriptor          = "vpp-arp"
	VRFTableDescriptor     = "vpp-vrf-table"
	NATGlobalDescriptor    = "vpp-nat44-global"
	NATInterfaceDescriptor = "vpp-nat44-interface"
	NATPoolDescriptor      = "vpp-nat44-address-pool"
	NAT66Descriptor        = "contiv-snat66"
	DNAT66Descriptor       = "contiv-dnat66"
	// ServiceNetworkDescriptor: see contiv.nat.ServiceNetwork.
	ServiceNetworkDescriptor = "contiv-service-network"

	NATGlobalInterfaceDescriptor   = "vpp-nat44-global-interface"
	NATGlobalAddressDescriptor     = "vpp-nat44-global-address"
	NATEndpointDependentDescriptor = "vpp-nat44-endpoint-dependent"
	NATTwicePoolDescriptor         = "vpp-nat44-twice-nat-pool"
	DNATDescriptor                 = "vpp-nat44-dnat"
	NATVRFTableDescriptor          = "vpp-nat44-vrf"
	NATVRFRouteDescriptor          = "vpp-nat44-vrf-route"
	ACLDescriptor                  = "vpp-acl"
	ACLInterfaceDescriptor         = "vpp-acl-to-interface"
)

// Register registers the descriptors of the vpp.* models, working on vs.
func Register(s *kvscheduler.Scheduler, vs VSwitch) error {
	r, alloc := registrar{s: s}, netalloc.NewResolver(s)
	register(&r, interfaceDescriptor(vs.Interfaces(), alloc))
	register(&r, addressDescriptor(vs.Interfaces(), alloc))
	register(&r, interfaceVRFDescriptor(vs.Interfaces()))
	register(&r, hasAddressDescriptor())
	register(&r, unnumberedDescriptor(vs.Interfaces()))
	register(&r, dhcpClientDescriptor(vs.Interfaces()))
	register(&r, dhcpLeaseDescriptor(vs.Interfaces()))
	register(&r, linkStateDescriptor(vs.States()))
	register(&r, bondMemberDescriptor(vs.Interfaces()))
	register(&r, ip6NDDescriptor(vs.Interfaces()))
	register(&r, bridgeDomainDescriptor(vs.Bridges()))
	register(&r, bdInterfaceDescriptor(vs.Bridges()))
	register(&r, fibDescriptor(vs.FIB()))
	registerFeatures(&r, vs)
	registerSRv6(&r, vs.SRv6())
	register(&r, routeDescriptor(vs.Routes(), alloc))
	register(&r, arpDescriptor(vs.Neighbours(), alloc))
	register(&r, vrfTableDescriptor(vs.VRFs()))
	register(&r, natGlobalDescriptor(vs.NAT()))
	register(&r, natInterfaceDescriptor(vs.NAT()))
	register(&r, natPoolDescriptor(vs.NAT()))
	register(&r, natGlobalInterfaceDescriptor(vs.NAT()))
	register(&r, natGlobalAddressDescriptor(vs.NAT()))
	register(&r, natPropertyDescriptor(NATEndpointDependentDescriptor, models.NAT44EndpointDependentKey))
	register(&r, natPropertyDescriptor(NATTwicePoolDescriptor, models.NAT44TwicePoolPrefix))
	register(&r, dnatDescriptor(vs.NAT()))
	register(&r, natVRFTableDescriptor(vs.NAT()))
	register(&r, natVRFRouteDescriptor(vs.NAT()))
	register(&r, nat66Descriptor(vs.NAT66()))
	register(&r, dnat66Descriptor(vs.DNAT66()))
	register(&r, serviceNetworkDescriptor(vs.ServiceNetworks()))
	register(&r, aclDescriptor(vs.ACLs()))
	register(&r, aclInterfaceDescriptor(vs.ACLs()))
	registerFilter(&r, vs.Filter())
	if r.err == nil {
		vs.WatchLeases(notifyLeases(s))
		vs.States().Watch(notifyLinkStates(s))
	}
	return r.err
}

// registrar remembers the first error.
type registrar struct {
	s   *kvscheduler.Scheduler
	err error
}

type noMeta = kvscheduler.NoMetadata

func register[V proto.Message, M any](r *registrar, d kvscheduler.Descriptor[V, M]) {
	if r.err != nil {
		return
	}
	d.Retriable = retriable
	if err := kvscheduler.Register(r.s, d); err != nil {
		r.err = fmt.Errorf("registering descriptor %s: %w", d.Name, err)
	}
}
