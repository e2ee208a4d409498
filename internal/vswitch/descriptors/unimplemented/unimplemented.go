package unimplemented

import (
	vpp_ipsec "github.com/contiv/contiv/api/ligato/vpp/ipsec"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// Register registers the models without port.
func Register(r *descriptor.Registrar, f vswitch.Features) {
	lacking(r, f, vswitch.VRRPDescriptor, models.VRRP, validateVRRP)
	lacking(r, f, vswitch.SPDDescriptor, models.IPSecSPD, validateSPD)
	lacking(r, f, vswitch.SPDescriptor, models.IPSecSP, validateSP)
	lacking(r, f, vswitch.SADescriptor, models.IPSecSA, validateNothing[*vpp_ipsec.SecurityAssociation])
	lacking(r, f, vswitch.TunnelProtectionDescriptor, models.IPSecTunnelProtection, validateTunnelProtection)
	lacking(r, f, vswitch.DNSCacheDescriptor, models.DNSCache, validateDNSCache)
	lacking(r, f, vswitch.IPFIXDescriptor, models.IPFIX, validateIPFIX)
	lacking(r, f, vswitch.FlowProbeParamsDescriptor, models.FlowProbeParams, validateFlowProbeParams)
	lacking(r, f, vswitch.FlowProbeFeatureDescriptor, models.FlowProbeFeature, validateFlowProbeFeature)
}

// lacking registers a model for which the vswitch has no port; see Extras.
func lacking[V proto.Message](r *descriptor.Registrar, f vswitch.Features, name string, model *models.Model, validate func(V) error) {
	descriptor.Register(r, descriptor.Unimplemented(f, kvscheduler.Descriptor[V, descriptor.NoMeta]{
		Name:     name,
		Keys:     kvscheduler.KeySpace{Prefix: model.KeyPrefix()},
		NB:       true,
		Validate: func(_ string, v V) error { return validate(v) },
	}))
}

func validateNothing[V any](V) error { return nil }
