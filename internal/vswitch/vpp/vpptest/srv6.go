package vpptest

import (
	"fmt"
	"net/netip"
	"slices"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ethernet_types"
	"go.fd.io/govpp/binapi/ip_types"
	"go.fd.io/govpp/binapi/sr"
	"go.fd.io/govpp/binapi/sr_types"
)

// segments is segment routing as VPP has it.
type segments struct {
	source    ip_types.IP6Address
	sids      []*sr.SrLocalsidsDetails
	policies  []*srPolicy
	steerings []*srSteering
	nextList  uint32
}

type srPolicy struct {
	sr.SrPoliciesV2Details
	lists []sr.Srv6SidListWithSlIndex
}

type srSteering struct {
	key    steeringKey
	policy *srPolicy
}

type steeringKey struct {
	kind   sr_types.SrSteer
	prefix ip_types.Prefix
	table  uint32
	iface  uint32
}

// Error codes of segment routing.
const (
	srExists, srMissing, srNoTable, srTaken = -1, -2, -3, -4
	srNoPolicy, srOnlyList, srNoList        = -1, -21, -22
	srBSIDTaken, srNoBSIDTable              = -12, -13
	srNoPolicyToSteer, srNoSteering         = -2, -4
	srInserts                               = -5
)

func (c *call) hasInterface(i index) bool { return c.ifs.iface(i) != nil }

func (c *call) hasTable(id uint32, v6 bool) bool {
	return id == 0 || tableExists != nil && tableExists(c, id, v6)
}

func (s *segments) sid(addr ip_types.IP6Address) int {
	return slices.IndexFunc(s.sids, func(d *sr.SrLocalsidsDetails) bool { return d.Addr == addr })
}

func (s *segments) policy(bsid ip_types.IP6Address) *srPolicy {
	if i := slices.IndexFunc(s.policies, func(p *srPolicy) bool { return p.Bsid == bsid }); i >= 0 {
		return s.policies[i]
	}
	return nil
}

func (p *srPolicy) add(s *segments, list sr.Srv6SidList, source ip_types.IP6Address) {
	if source == (ip_types.IP6Address{}) {
		source = s.source
	}
	if p.IsEncap {
		p.EncapSrc = source
	}
	p.lists = append(p.lists, sr.Srv6SidListWithSlIndex{NumSids: list.NumSids, Weight: list.Weight, SlIndex: s.nextList, Sids: list.Sids})
	s.nextList++
}

// asAny returns an address like VPP reports it without its version: as IPv4 if it looks like that.
func asAny(a ip_types.Address) ip_types.Address {
	raw := a.Un.GetIP6()
	if a.Af != ip_types.ADDRESS_IP6 || [12]byte(raw[:12]) != [12]byte{} {
		return a
	}
	return ip_types.Address{Af: ip_types.ADDRESS_IP4, Un: ip_types.AddressUnionIP4([4]byte(raw[12:]))}
}

func handleSRv6() {
	commands["show sr encaps source addr"] = func(c *call) string {
		return fmt.Sprintf("SR encaps source addr = %s\n", netip.AddrFrom16(c.sr.source))
	}
	on(func(c *call, req *sr.SrSetEncapSource, _ *sr.SrSetEncapSourceReply) api.VPPApiError {
		c.sr.source = req.EncapsSource
		return 0
	})
	on(func(c *call, req *sr.SrLocalsidAddDel, reply *sr.SrLocalsidAddDelReply) (code api.VPPApiError) {
		c.adjacent(func() { code = localSIDAddDel(c, req, reply) })
		return code
	})
	onDump(func(c *call, _ *sr.SrLocalsidsDump, send func(*sr.SrLocalsidsDetails)) {
		for _, d := range c.sr.sids {
			send(d)
		}
	})
	on(func(c *call, req *sr.SrPolicyAddV2, _ *sr.SrPolicyAddV2Reply) api.VPPApiError {
		s := &c.sr
		switch {
		case s.policy(req.BsidAddr) != nil:
			return srBSIDTaken
		case !c.hasTable(req.FibTable, true):
			return srNoBSIDTable
		case s.sid(req.BsidAddr) >= 0:
			return srBSIDTaken
		}
		p := &srPolicy{SrPoliciesV2Details: sr.SrPoliciesV2Details{
			Bsid: req.BsidAddr, Type: req.Type, IsEncap: req.IsEncap, FibTable: req.FibTable}}
		p.add(s, req.Sids, req.EncapSrc)
		s.policies = append(s.policies, p)
		return 0
	})
	on(func(c *call, req *sr.SrPolicyModV2, _ *sr.SrPolicyModV2Reply) api.VPPApiError {
		p := c.sr.policy(req.BsidAddr)
		if p == nil {
			return srNoPolicy
		}
		at := slices.IndexFunc(p.lists, func(l sr.Srv6SidListWithSlIndex) bool { return l.SlIndex == req.SlIndex })
		switch req.Operation {
		case sr_types.SR_POLICY_OP_API_ADD:
			p.add(&c.sr, req.Sids, req.EncapSrc)
		case sr_types.SR_POLICY_OP_API_DEL:
			if len(p.lists) == 1 {
				return srOnlyList
			}
			if at < 0 {
				return srNoList
			}
			last := len(p.lists) - 1 // replaces the removed one
			p.lists[at] = p.lists[last]
			p.lists = p.lists[:last]
		default:
			return srNoPolicy
		}
		return 0
	})
	on(func(c *call, req *sr.SrPolicyDel, _ *sr.SrPolicyDelReply) api.VPPApiError {
		p := c.sr.policy(req.BsidAddr)
		if p == nil {
			return srNoPolicy
		}
		if slices.ContainsFunc(c.sr.steerings, func(s *srSteering) bool { return s.policy == p }) {
			c.server.t.Errorf("vpptest: policy %v is deleted while something is steered into it: VPP would read freed memory", netip.AddrFrom16(p.Bsid))
		}
		c.sr.policies = slices.DeleteFunc(c.sr.policies, func(o *srPolicy) bool { return o == p })
		return 0
	})
	onDump(func(c *call, _ *sr.SrPoliciesV2Dump, send func(*sr.SrPoliciesV2Details)) {
		for _, p := range c.sr.policies {
			d := p.SrPoliciesV2Details
			for _, l := range p.lists {
				d.SidLists = append(d.SidLists, sr.Srv6SidList{NumSids: l.NumSids, Weight: l.Weight, Sids: l.Sids})
			}
			send(&d)
		}
	})
	onDump(func(c *call, _ *sr.SrPoliciesWithSlIndexDump, send func(*sr.SrPoliciesWithSlIndexDetails)) {
		for _, p := range c.sr.policies {
			send(&sr.SrPoliciesWithSlIndexDetails{
				Bsid: p.Bsid, IsSpray: p.Type == sr.SR_API_POLICY_TYPE_SPRAY, IsEncap: p.IsEncap, FibTable: p.FibTable, SidLists: p.lists,
			})
		}
	})
	on(steeringAddDel)
	onDump(func(c *call, _ *sr.SrSteeringPolDump, send func(*sr.SrSteeringPolDetails)) {
		for _, s := range c.sr.steerings {
			d := &sr.SrSteeringPolDetails{TrafficType: s.key.kind, FibTable: s.key.table, Prefix: s.key.prefix, Bsid: s.policy.Bsid}
			d.Prefix.Address = asAny(d.Prefix.Address)
			if s.key.kind == sr_types.SR_STEER_API_L2 {
				d.SwIfIndex = index(s.key.iface)
			}
			send(d)
		}
	})
}

func localSIDAddDel(c *call, req *sr.SrLocalsidAddDel, _ *sr.SrLocalsidAddDelReply) api.VPPApiError {
	switch req.Behavior {
	case sr_types.SR_BEHAVIOR_API_X, sr_types.SR_BEHAVIOR_API_DX2, sr_types.SR_BEHAVIOR_API_DX4, sr_types.SR_BEHAVIOR_API_DX6:
		if !c.hasInterface(req.SwIfIndex) {
			return api.INVALID_SW_IF_INDEX
		}
	}
	s := &c.sr
	at := s.sid(req.Localsid)
	switch {
	case at >= 0 && req.IsDel:
		if s.sids[at].FibTable != req.FibTable {
			c.server.t.Errorf("vpptest: local SID %v is deleted from table %d, but is in %d", netip.AddrFrom16(req.Localsid), req.FibTable, s.sids[at].FibTable)
		}
		s.sids = slices.Delete(s.sids, at, at+1)
		return 0
	case at >= 0:
		return srExists
	case req.IsDel:
		return srMissing
	case !c.hasTable(req.FibTable, true):
		return srNoTable
	case s.policy(req.Localsid) != nil:
		return srTaken
	}
	d := &sr.SrLocalsidsDetails{Addr: req.Localsid, EndPsp: req.EndPsp, Behavior: req.Behavior, FibTable: req.FibTable}
	switch req.Behavior {
	case sr_types.SR_BEHAVIOR_API_DX2:
		d.VlanIndex, d.XconnectIfaceOrVrfTable = req.VlanIndex, uint32(req.SwIfIndex)
	case sr_types.SR_BEHAVIOR_API_X, sr_types.SR_BEHAVIOR_API_DX4, sr_types.SR_BEHAVIOR_API_DX6:
		d.XconnectNhAddr, d.XconnectIfaceOrVrfTable = asAny(req.NhAddr), uint32(req.SwIfIndex)
	case sr_types.SR_BEHAVIOR_API_T, sr_types.SR_BEHAVIOR_API_DT4, sr_types.SR_BEHAVIOR_API_DT6:
		d.XconnectIfaceOrVrfTable = uint32(req.SwIfIndex)
	}
	s.sids = append(s.sids, d)
	return 0
}

func steeringAddDel(c *call, req *sr.SrSteeringAddDel, _ *sr.SrSteeringAddDelReply) api.VPPApiError {
	key := steeringKey{kind: req.TrafficType, prefix: req.Prefix, table: req.TableID}
	if req.TrafficType == sr_types.SR_STEER_API_L2 {
		if !c.hasInterface(req.SwIfIndex) {
			return api.INVALID_SW_IF_INDEX
		}
		if (!req.IsDel && c.ifs.iface(req.SwIfIndex).L2Address == ethernet_types.MacAddress{}) {
			return c.ends("an interface that is not of Ethernet is made promiscuous")
		}
		key = steeringKey{kind: req.TrafficType, iface: uint32(req.SwIfIndex)}
	}
	s := &c.sr
	at := slices.IndexFunc(s.steerings, func(o *srSteering) bool { return o.key == key })
	if req.IsDel {
		if at < 0 {
			return srNoSteering
		}
		s.steerings = slices.Delete(s.steerings, at, at+1)
		return 0
	}
	p := s.policy(req.BsidAddr)
	switch {
	case p == nil:
		return srNoPolicyToSteer
	case at >= 0:
		s.steerings[at].policy = p
		return 0
	case !p.IsEncap && req.TrafficType != sr_types.SR_STEER_API_IPV6:
		return srInserts
	}
	s.steerings = append(s.steerings, &srSteering{key, p})
	return 0
}
