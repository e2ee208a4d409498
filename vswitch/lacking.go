package vswitch

import (
	vpp_ipsec "github.com/contiv/contiv/api/ligato/vpp/ipsec"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// Names of the descriptors of what some vswitches have nothing for.
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
)

// registerLacking registers the models that no vswitch has a port for.
func registerLacking(r *registrar, f Features) {
	lacking(r, f, VRRPDescriptor, models.VRRP, validateVRRP)
	lacking(r, f, SPDDescriptor, models.IPSecSPD, validateSPD)
	lacking(r, f, SPDescriptor, models.IPSecSP, validateSP)
	lacking(r, f, SADescriptor, models.IPSecSA, validateNothing[*vpp_ipsec.SecurityAssociation])
	lacking(r, f, TunnelProtectionDescriptor, models.IPSecTunnelProtection, validateTunnelProtection)
	lacking(r, f, DNSCacheDescriptor, models.DNSCache, validateDNSCache)
	lacking(r, f, IPFIXDescriptor, models.IPFIX, validateIPFIX)
	lacking(r, f, FlowProbeParamsDescriptor, models.FlowProbeParams, validateFlowProbeParams)
	lacking(r, f, FlowProbeFeatureDescriptor, models.FlowProbeFeature, validateFlowProbeFeature)
}

// lacking registers a model whose values nobody configures, see Extras.
func lacking[V proto.Message](r *registrar, f Features, name string, model *models.Model, validate func(V) error) {
	register(r, unimplemented(f, kvscheduler.Descriptor[V, noMeta]{
		Name:     name,
		Keys:     kvscheduler.KeySpace{Prefix: model.KeyPrefix()},
		NB:       true,
		Validate: func(_ string, v V) error { return validate(v) },
	}))
}

func validateNothing[V any](V) error { return nil }
