package vpptest

import (
	"slices"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/abf"
	"go.fd.io/govpp/binapi/fib_types"
)

// abfState holds policies and attachments.
type abfState struct {
	policies []*abf.AbfPolicy
	attached []abf.AbfItfAttach
}

func (s *abfState) policy(id uint32) *abf.AbfPolicy {
	if i := slices.IndexFunc(s.policies, func(p *abf.AbfPolicy) bool { return p.PolicyID == id }); i >= 0 {
		return s.policies[i]
	}
	return nil
}

// sameNextHop ignores weights.
func sameNextHop(a, b fib_types.FibPath) bool {
	a.Weight, a.Preference, b.Weight, b.Preference = 0, 0, 0, 0
	return a == b
}

func handleABF() {
	on(func(c *call, req *abf.AbfPolicyAddDel, _ *abf.AbfPolicyAddDelReply) api.VPPApiError {
		if len(req.Policy.Paths) == 0 {
			return api.INVALID_VALUE
		}
		for i, p := range req.Policy.Paths {
			if p.SwIfIndex != uint32(noIndex) && !c.hasInterface(index(p.SwIfIndex)) {
				return api.NO_MATCHING_INTERFACE
			}
			req.Policy.Paths[i].Weight = max(p.Weight, 1)
		}
		s := &c.abf
		p := s.policy(req.Policy.PolicyID)
		switch {
		case p == nil && !req.IsAdd:
			return api.INVALID_VALUE
		case p == nil:
			s.policies = append(s.policies, &req.Policy)
			return 0
		case req.IsAdd && p.ACLIndex != req.Policy.ACLIndex:
			return api.INVALID_VALUE
		}
		for _, path := range req.Policy.Paths {
			at := slices.IndexFunc(p.Paths, func(o fib_types.FibPath) bool { return sameNextHop(o, path) })
			switch {
			case req.IsAdd && at < 0:
				p.Paths = append(p.Paths, path)
			case !req.IsAdd && at >= 0:
				p.Paths = slices.Delete(p.Paths, at, at+1)
			}
		}
		if len(p.Paths) == 0 {
			if slices.ContainsFunc(s.attached, func(a abf.AbfItfAttach) bool { return a.PolicyID == p.PolicyID }) {
				c.server.t.Errorf("vpptest: ABF %d loses its last path while it is attached: VPP would crash", p.PolicyID)
			}
			s.policies = slices.DeleteFunc(s.policies, func(o *abf.AbfPolicy) bool { return o == p })
		}
		return 0
	})
	onDump(func(c *call, _ *abf.AbfPolicyDump, send func(*abf.AbfPolicyDetails)) {
		for _, p := range c.abf.policies {
			send(&abf.AbfPolicyDetails{Policy: *p})
		}
	})
	on(func(c *call, req *abf.AbfItfAttachAddDel, _ *abf.AbfItfAttachAddDelReply) api.VPPApiError {
		s := &c.abf
		if s.policy(req.Attach.PolicyID) == nil {
			c.server.t.Errorf("vpptest: ABF %d, which is not there, is attached or detached: VPP would crash", req.Attach.PolicyID)
			return api.NO_SUCH_ENTRY
		}
		at := slices.IndexFunc(s.attached, func(a abf.AbfItfAttach) bool {
			return a.PolicyID == req.Attach.PolicyID && a.SwIfIndex == req.Attach.SwIfIndex
		})
		switch {
		case req.IsAdd && at >= 0:
			return api.ENTRY_ALREADY_EXISTS
		case req.IsAdd:
			s.attached = append(s.attached, req.Attach)
		case at < 0:
			return api.NO_SUCH_ENTRY
		default:
			if s.attached[at].IsIPv6 != req.Attach.IsIPv6 {
				c.server.t.Errorf("vpptest: ABF %d is detached for the wrong IP version: VPP would crash", req.Attach.PolicyID)
			}
			s.attached = slices.Delete(s.attached, at, at+1)
		}
		return 0
	})
	onDump(func(c *call, _ *abf.AbfItfAttachDump, send func(*abf.AbfItfAttachDetails)) {
		for _, a := range c.abf.attached {
			send(&abf.AbfItfAttachDetails{Attach: a})
		}
	})
}
