package srv6

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/sr"
	"go.fd.io/govpp/binapi/sr_types"
)

type srPolicies struct{ *SRv6 }

// Limits of VPP's messages.
const maxSegments, maxSegmentLists = 16, 255

// way is a segment list in VPP's request.
type way = sr.Srv6SidList

func wayOf(list *vpp_srv6.Policy_SegmentList) way {
	w := way{NumSids: uint8(len(list.GetSegments())), Weight: max(list.GetWeight(), 1)}
	for i, segment := range list.GetSegments() {
		w.Sids[i] = address6(segment)
	}
	return w
}

func wayOfDetails(d sr.Srv6SidListWithSlIndex) way {
	return way{NumSids: d.NumSids, Weight: d.Weight, Sids: d.Sids}
}

func policySupported(p *vpp_srv6.Policy) error {
	if n := len(p.GetSegmentLists()); n > maxSegmentLists {
		return vswitch.Unsupported("%d segment lists: use at most %d", n, maxSegmentLists)
	}
	for _, list := range p.GetSegmentLists() {
		if n := len(list.GetSegments()); n > maxSegments {
			return vswitch.Unsupported("a list of %d segments: use at most %d", n, maxSegments)
		}
	}
	return nil
}

func policyType(p *vpp_srv6.Policy) sr.SrPolicyType {
	if p.GetSprayBehaviour() {
		return sr.SR_API_POLICY_TYPE_SPRAY
	}
	return sr.SR_API_POLICY_TYPE_DEFAULT
}

func (v srPolicies) Create(ctx context.Context, p *vpp_srv6.Policy) error {
	err := policySupported(p)
	if err == nil {
		err = v.set(ctx, p)
	}
	switch {
	case vppapi.Refused(err, srNoBSIDTable):
		err = fmt.Errorf("its table does not exist (%w)", err)
	case vppapi.Refused(err, srBSIDTaken):
		err = fmt.Errorf("another route to this address exists, maybe a local SID or an interface address (%w)", err)
	}
	if err != nil {
		return fmt.Errorf("making policy %s: %w", p.GetBsid(), err)
	}
	return nil
}

// set creates the policy, or adds and then removes segment lists of an existing one, so that one
// always exists.
func (v srPolicies) set(ctx context.Context, p *vpp_srv6.Policy) error {
	bsid, want := address6(p.GetBsid()), make([]way, 0, len(p.GetSegmentLists()))
	for _, list := range p.GetSegmentLists() {
		want = append(want, wayOf(list))
	}
	v.sr.Lock()
	defer v.sr.Unlock()
	taken := v.make(ctx, p, want)
	if !vppapi.Refused(taken, srBSIDTaken) {
		return taken
	}
	state, err := v.read(ctx)
	if err != nil {
		return err
	}
	now := state.policies[netip.AddrFrom16(bsid)]
	if now == nil {
		return taken
	}
	if now.IsEncap != p.GetSrhEncapsulation() || now.Type != policyType(p) || now.FibTable != p.GetInstallationVrfId() {
		return v.replace(ctx, p, want, now, state)
	}
	return v.setWays(ctx, now, want, state.source)
}

// make creates a missing policy. Without a source, VPP uses the global one.
func (v srPolicies) make(ctx context.Context, p *vpp_srv6.Policy, want []way) error {
	bsid := address6(p.GetBsid())
	add := &sr.SrPolicyAddV2{
		BsidAddr: bsid, Weight: want[0].Weight, IsEncap: p.GetSrhEncapsulation(), Type: policyType(p),
		FibTable: p.GetInstallationVrfId(), Sids: want[0],
	}
	if err := v.vpp.Call(ctx, module, add, &sr.SrPolicyAddV2Reply{}); err != nil {
		return err
	}
	return v.modify(ctx, addWays(bsid, want[1:]))
}

// replace recreates the policy and the steering into it.
func (v srPolicies) replace(ctx context.Context, p *vpp_srv6.Policy, want []way, now *srPolicy, state *srState) error {
	if err := v.remove(ctx, now, state); err != nil {
		return err
	}
	if err := v.make(ctx, p, want); err != nil {
		return err
	}
	var reqs []api.Message
	for _, s := range state.steeringInto(now.Bsid) {
		if p.GetSrhEncapsulation() || s.TrafficType == sr_types.SR_STEER_API_IPV6 {
			reqs = append(reqs, steeringRequest(s, false))
		}
	}
	return v.steer(ctx, reqs)
}

// setWays changes segment lists. Lists with an outdated source of encapsulated packets count as
// different.
func (v srPolicies) setWays(ctx context.Context, now *srPolicy, want []way, source netip.Addr) error {
	stale := now.IsEncap && netip.AddrFrom16(now.EncapSrc) != source
	var reqs []api.Message
	rest := slices.Clone(want)
	for _, list := range now.lists {
		i := slices.Index(rest, wayOfDetails(list))
		if i >= 0 && !stale {
			rest = slices.Delete(rest, i, i+1)
			continue
		}
		reqs = append(reqs, &sr.SrPolicyModV2{BsidAddr: now.Bsid, Operation: sr_types.SR_POLICY_OP_API_DEL, SlIndex: list.SlIndex})
	}
	return v.modify(ctx, append(addWays(now.Bsid, rest), reqs...))
}

func addWays(bsid [16]byte, ways []way) (reqs []api.Message) {
	for _, w := range ways {
		reqs = append(reqs, &sr.SrPolicyModV2{
			BsidAddr: bsid, Operation: sr_types.SR_POLICY_OP_API_ADD, Sids: w,
		})
	}
	return reqs
}

func (v srPolicies) modify(ctx context.Context, reqs []api.Message) error {
	_, errs := session.CallAll[sr.SrPolicyModV2Reply](ctx, v.vpp, module, reqs)
	return session.FirstError(errs)
}

func (v srPolicies) Delete(ctx context.Context, p *vpp_srv6.Policy) error {
	v.sr.Lock()
	defer v.sr.Unlock()
	state, err := v.read(ctx)
	if err == nil {
		if now := state.policies[netip.AddrFrom16(address6(p.GetBsid()))]; now != nil {
			err = v.remove(ctx, now, state)
		}
	}
	if err != nil {
		return fmt.Errorf("deleting policy %s: %w", p.GetBsid(), err)
	}
	return nil
}

// remove removes the steering into a policy and then the policy, because VPP does not check
// references.
func (v srPolicies) remove(ctx context.Context, now *srPolicy, state *srState) error {
	var reqs []api.Message
	for _, s := range state.steeringInto(now.Bsid) {
		reqs = append(reqs, steeringRequest(s, true))
	}
	if err := v.steer(ctx, reqs); err != nil {
		return fmt.Errorf("ending the steering into it: %w", err)
	}
	err := v.vpp.Call(ctx, module, &sr.SrPolicyDel{BsidAddr: now.Bsid}, &sr.SrPolicyDelReply{})
	if vppapi.Refused(err, srNoPolicy) {
		return nil
	}
	return err
}

func (v srPolicies) steer(ctx context.Context, reqs []api.Message) error {
	_, errs := session.CallAll[sr.SrSteeringAddDelReply](ctx, v.vpp, module, reqs)
	return session.FirstError(errs)
}

func (s *srState) steeringInto(bsid [16]byte) (into []*sr.SrSteeringPolDetails) {
	for _, steering := range s.steerings {
		if steering.Bsid == bsid {
			into = append(into, steering)
		}
	}
	return into
}

// List: a policy with a wrong packet source is reported without segment lists.
func (v srPolicies) List(ctx context.Context, expected []*vpp_srv6.Policy) ([]*vpp_srv6.Policy, error) {
	state, err := v.read(ctx)
	if err != nil {
		return nil, err
	}
	text := convert.Texts(expected, (*vpp_srv6.Policy).GetBsid)
	list := make([]*vpp_srv6.Policy, 0, len(state.policies))
	for bsid, p := range state.policies {
		policy := &vpp_srv6.Policy{
			Bsid: text(bsid), InstallationVrfId: p.FibTable, SrhEncapsulation: p.IsEncap,
			SprayBehaviour: p.Type == sr.SR_API_POLICY_TYPE_SPRAY,
		}
		if !p.IsEncap || netip.AddrFrom16(p.EncapSrc) == state.source {
			policy.SegmentLists = segmentLists(p.lists)
		}
		list = append(list, policy)
	}
	return list, nil
}

func segmentLists(lists []sr.Srv6SidListWithSlIndex) (result []*vpp_srv6.Policy_SegmentList) {
	for _, l := range lists {
		list := &vpp_srv6.Policy_SegmentList{Weight: l.Weight}
		for _, sid := range l.Sids[:min(int(l.NumSids), maxSegments)] {
			list.Segments = append(list.Segments, netip.AddrFrom16(sid).String())
		}
		result = append(result, list)
	}
	return result
}
