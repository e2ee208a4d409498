package vswitch

// Names of the descriptors of models that every vswitch supports.
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

	AddressSetDescriptor  = "contiv-address-set"
	EndpointSetDescriptor = "contiv-endpoint-set"
	AccessListDescriptor  = "contiv-access-list"
	SubjectDescriptor     = "contiv-subject"
)

// Names of the descriptors of features.
const (
	XConnectDescriptor          = "vpp-xconnect"
	SpanDescriptor              = "vpp-span"
	L3XConnectDescriptor        = "vpp-l3xc"
	ProxyARPDescriptor          = "vpp-proxy-arp"
	ProxyARPInterfaceDescriptor = "vpp-proxy-arp-interface"
)

// Names of the descriptors of segment routing.
const (
	LocalSIDDescriptor   = "vpp-sr-localsid"
	SRPolicyDescriptor   = "vpp-sr-policy"
	SRSteeringDescriptor = "vpp-sr-steering"
	SRv6GlobalDescriptor = "vpp-srv6-global"
)

// Names of the descriptors of models that some vswitches do not support.
const (
	ABFDescriptor              = "vpp-abf"
	ABFInterfaceDescriptor     = "vpp-abf-to-interface"
	IPScanNeighborDescriptor   = "vpp-ip-scan-neighbor"
	DHCPProxyDescriptor        = "dhcp-proxy"
	TEIBDescriptor             = "vpp-teib"
	VRRPDescriptor             = "vrrp"
	SPDDescriptor              = "vpp-ipsec-spd"
	SPDescriptor               = "vpp-ipsec-sp"
	SADescriptor               = "vpp-ipsec-sa"
	TunnelProtectionDescriptor = "vpp-tun-protect"
	IPRedirectDescriptor       = "vpp-punt-ipredirect"
	PuntToHostDescriptor       = "vpp-punt-to-host"
	PuntExceptionDescriptor    = "vpp-punt-exception"
	STNDescriptor              = "vpp-stn-rules"
	DNSCacheDescriptor         = "vpp-dns-cache"
	WireGuardPeerDescriptor    = "vpp-wg-peer"
	IPFIXDescriptor            = "vpp-ipfix"
	FlowProbeParamsDescriptor  = "vpp-flowprobe-params"
	FlowProbeFeatureDescriptor = "vpp-flowprobe-feature"

	// Of values derived from interfaces.
	RxModesDescriptor     = "vpp-interface-rx-mode"
	RxPlacementDescriptor = "vpp-interface-rx-placement"

	SourceGuardDescriptor = "contiv-source-guard"
	// SourceRangesDescriptor: see contiv.guard.SourceRanges.
	SourceRangesDescriptor = "contiv-source-ranges"
)
