package srv6

// Labels of the dependencies.
const (
	labelSRPolicyExists    = "sr-policy-for-steering-exists"
	labelSIDVRFExists      = "sr-localsid-installation-vrf-table-exists"
	labelLookupVRFExists   = "sr-localsid-routing-lookup-vrf-table-exists"
	labelSIDOutgoingExists = "sr-localsid-outgoing-interface-exists"
	labelSIDIncomingExists = "sr-localsid-incoming-interface-exists"
	labelPolicyVRFExists   = "sr-policy-vrf-table-exists"
	labelSteeringVRFExists = "sr-steering-vrf-table-exists"
	labelSteeringL2Exists  = "sr-steering-l2-interface-exists"
)
