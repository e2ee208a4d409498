package srv6

import (
	"context"
	"fmt"
	"slices"
	"strings"

	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// srPolicyDescriptor handles config/vpp/srv6/v2/policy/{bsid}.
func srPolicyDescriptor(port vswitch.Values[*vpp_srv6.Policy]) kvscheduler.Descriptor[*vpp_srv6.Policy, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_srv6.Policy, descriptor.NoMeta]{
		Name:          vswitch.SRPolicyDescriptor,
		Keys:          kvscheduler.KeySpace{Prefix: models.SRv6Policy.KeyPrefix()},
		NB:            true,
		Validate:      func(_ string, p *vpp_srv6.Policy) error { return validatePolicy(p) },
		Equivalent:    func(_ string, old, new *vpp_srv6.Policy) bool { return equivalentPolicies(old, new) },
		Create:        descriptor.Create(port.Create),
		Update:        descriptor.Update(func(ctx context.Context, _, new *vpp_srv6.Policy) error { return port.Create(ctx, new) }),
		Delete:        descriptor.Delete(port.Delete),
		Retrieve:      descriptor.Retrieve(port.List),
		RetrieveAfter: []string{vswitch.VRFTableDescriptor},
		UpdateWithRecreate: func(_ string, old, new *vpp_srv6.Policy, _ descriptor.NoMeta) bool {
			return !samePolicyAttributes(old, new)
		},
		Dependencies: func(_ string, p *vpp_srv6.Policy) []kvscheduler.Dependency {
			if p.GetInstallationVrfId() == 0 {
				return nil
			}
			return []kvscheduler.Dependency{{Label: labelPolicyVRFExists, Key: models.VRFTableKey(p.GetInstallationVrfId(), true)}}
		},
	}
}

func validatePolicy(p *vpp_srv6.Policy) error {
	if err := validIPv6("bsid", p.GetBsid()); err != nil {
		return err
	}
	if len(p.GetSegmentLists()) == 0 {
		return descriptor.Invalid("segment_lists", "policy %s leads nowhere: give it a segment list", p.GetBsid())
	}
	known := map[string]bool{}
	for i, list := range p.GetSegmentLists() {
		field := fmt.Sprintf("segment_lists[%d].segments", i)
		if len(list.GetSegments()) == 0 {
			return descriptor.Invalid(field, "the list is empty: name a segment")
		}
		for _, segment := range list.GetSegments() {
			if err := validIPv6(field, segment); err != nil {
				return err
			}
		}
		if way := wayOf(list); known[way] {
			return descriptor.Invalid(field, "the way over %s is there twice: give one of them the weight of both", way)
		} else {
			known[way] = true
		}
	}
	return nil
}

// wayOf identifies a segment list without its weight.
func wayOf(list *vpp_srv6.Policy_SegmentList) string {
	segments := make([]string, len(list.GetSegments()))
	for i, segment := range list.GetSegments() {
		segments[i] = vswitch.CanonicalAddr(segment)
	}
	return strings.Join(segments, ", ")
}

func samePolicyAttributes(a, b *vpp_srv6.Policy) bool {
	return descriptor.SameAddrText(a.GetBsid(), b.GetBsid()) &&
		a.GetInstallationVrfId() == b.GetInstallationVrfId() &&
		a.GetSrhEncapsulation() == b.GetSrhEncapsulation() &&
		a.GetSprayBehaviour() == b.GetSprayBehaviour()
}

// equivalentPolicies ignores the order of segment lists; weights 0 and 1 are equal.
func equivalentPolicies(a, b *vpp_srv6.Policy) bool {
	ways := func(p *vpp_srv6.Policy) []string {
		list := make([]string, len(p.GetSegmentLists()))
		for i, l := range p.GetSegmentLists() {
			list[i] = fmt.Sprintf("%s weight %d", wayOf(l), max(l.GetWeight(), 1))
		}
		slices.Sort(list)
		return list
	}
	return samePolicyAttributes(a, b) && slices.Equal(ways(a), ways(b))
}
