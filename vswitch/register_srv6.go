package vswitch

// Names of the descriptors of segment routing.
const (
	LocalSIDDescriptor     = "vpp-sr-localsid"
	SRPolicyDescriptor     = "vpp-sr-policy"
	SRSteeringDescriptor   = "vpp-sr-steering"
	SRv6GlobalDescriptor   = "vpp-srv6-global"
	labelSRPolicyExists    = "sr-policy-for-steering-exists"
	labelSIDVRFExists      = "sr-localsid-installation-vrf-table-exists"
	labelLookupVRFExists   = "sr-localsid-routing-lookup-vrf-table-exists"
	labelSIDOutgoingExists = "sr-localsid-outgoing-interface-exists"
	labelSIDIncomingExists = "sr-localsid-incoming-interface-exists"
	labelPolicyVRFExists   = "sr-policy-vrf-table-exists"
	labelSteeringVRFExists = "sr-steering-vrf-table-exists"
	labelSteeringL2Exists  = "sr-steering-l2-interface-exists"
)

func registerSRv6(r *registrar, port SRv6) {
	register(r, localSIDDescriptor(port.LocalSIDs()))
	register(r, srPolicyDescriptor(port.Policies()))
	register(r, srSteeringDescriptor(port.Steerings()))
	register(r, srv6GlobalDescriptor(port.Globals()))
}
