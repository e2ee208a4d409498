package srv6

import (
	"net/netip"
	"strings"

	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// srSteeringDescriptor handles config/vpp/srv6/v2/steering/{name}.
func srSteeringDescriptor(port vswitch.Values[*vpp_srv6.Steering]) kvscheduler.Descriptor[*vpp_srv6.Steering, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_srv6.Steering, descriptor.NoMeta]{
		Name:     vswitch.SRSteeringDescriptor,
		Keys:     kvscheduler.KeySpace{Prefix: models.SRv6Steering.KeyPrefix()},
		NB:       true,
		Validate: func(_ string, s *vpp_srv6.Steering) error { return validateSteering(s) },
		Equivalent: func(_ string, old, new *vpp_srv6.Steering) bool {
			return proto.Equal(normalSteering(old), normalSteering(new))
		},
		Create:        descriptor.Create(port.Create),
		Delete:        descriptor.Delete(port.Delete),
		Retrieve:      descriptor.Retrieve(port.List),
		RetrieveAfter: []string{vswitch.InterfaceDescriptor, vswitch.VRFTableDescriptor, vswitch.SRPolicyDescriptor},
		Dependencies:  func(_ string, s *vpp_srv6.Steering) []kvscheduler.Dependency { return dependenciesOfSteering(s) },
	}
}

func validateSteering(s *vpp_srv6.Steering) error {
	switch s.GetPolicyRef().(type) {
	case *vpp_srv6.Steering_PolicyBsid:
		if err := validIPv6("policy_bsid", s.GetPolicyBsid()); err != nil {
			return err
		}
	case *vpp_srv6.Steering_PolicyIndex:
		return descriptor.Invalid("policy_index", "numbers of policies change with every start: name the policy by policy_bsid")
	default:
		return descriptor.Invalid("policy_bsid", "name the policy by its binding SID")
	}
	switch s.GetTraffic().(type) {
	case *vpp_srv6.Steering_L2Traffic_:
		return needsInterface("l2_traffic.interface_name", s.GetL2Traffic().GetInterfaceName())
	case *vpp_srv6.Steering_L3Traffic_:
		const field = "l3_traffic.prefix_address"
		text := s.GetL3Traffic().GetPrefixAddress()
		if err := descriptor.ValidPrefix(field, text); err != nil {
			return err
		}
		if dst := netip.MustParsePrefix(text); dst != dst.Masked() {
			return descriptor.Invalid(field, "%s has bits behind the prefix: write %s", dst, dst.Masked())
		}
		return nil
	}
	return descriptor.Invalid("traffic", "no traffic: set l3_traffic or l2_traffic")
}

func normalSteering(s *vpp_srv6.Steering) *vpp_srv6.Steering {
	s = proto.CloneOf(s)
	if ref, ok := s.GetPolicyRef().(*vpp_srv6.Steering_PolicyBsid); ok {
		ref.PolicyBsid = vswitch.CanonicalAddr(ref.PolicyBsid)
	}
	if l3 := s.GetL3Traffic(); l3 != nil {
		if dst, err := netip.ParsePrefix(l3.GetPrefixAddress()); err == nil {
			l3.PrefixAddress = dst.String()
		}
	}
	return s
}

// dependenciesOfSteering finds the policy by its binding SID in any notation.
func dependenciesOfSteering(s *vpp_srv6.Steering) []kvscheduler.Dependency {
	prefix := models.SRv6Policy.KeyPrefix()
	deps := []kvscheduler.Dependency{{Label: labelSRPolicyExists, AnyOf: kvscheduler.AnyOf{
		KeyPrefixes: []string{prefix},
		KeySelector: func(key string) bool {
			return descriptor.SameAddrText(strings.TrimPrefix(key, prefix), s.GetPolicyBsid())
		},
	}}}
	if name := s.GetL2Traffic().GetInterfaceName(); name != "" {
		deps = append(deps, kvscheduler.Dependency{Label: labelSteeringL2Exists, Key: models.VPPInterfaceKey(name)})
	}
	if l3 := s.GetL3Traffic(); l3.GetInstallationVrfId() != 0 {
		dst, err := netip.ParsePrefix(l3.GetPrefixAddress())
		ipv6 := err == nil && dst.Addr().Is6()
		deps = append(deps, kvscheduler.Dependency{Label: labelSteeringVRFExists, Key: models.VRFTableKey(l3.GetInstallationVrfId(), ipv6)})
	}
	return deps
}
