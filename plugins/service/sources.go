package service

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/guard"
	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/plugins/service/processor"
	"google.golang.org/protobuf/proto"
)

// Source ranges for a vswitch with mappings for all clients. Packets of other clients are dropped
// by an access list on outside interfaces, and by SourceRanges elsewhere:
//
//	client outside ──> main interface ──> access list ──> translation ──> endpoint
//	pod, host ───────> SourceRanges ────────────────────> translation
//
// Interfaces of pods and of the host translate before their access lists, which would see
// endpoints.

// The list permits everything else. Its name sorts after other access lists of these interfaces, so
// that an author of services cannot disable them.
const sourceRangesList = "~service-source-ranges"

var rangeKeys = []string{models.Key(&vpp_acl.ACL{Name: sourceRangesList}), models.SourceRanges.KeyPrefix()}

func (s *Service) noteRanges(svc *processor.Service) {
	if s.caps.ClientScopes {
		return
	}
	for _, f := range svc.Frontends {
		if f.Restricted {
			s.sourceRestricted[svc.ID] = append(s.sourceRestricted[svc.ID], f)
		}
	}
}

func (s *Service) sourceRanges() map[string]proto.Message {
	var frontends []processor.Frontend
	for _, list := range s.sourceRestricted {
		frontends = append(frontends, list...)
	}
	values := map[string]proto.Message{}
	if len(frontends) == 0 {
		return values
	}
	slices.SortFunc(frontends, processor.CompareFrontends)
	if inside := s.rangesInside(); len(inside.Frontends) > 0 {
		values[models.Key(inside)] = inside
	}
	// With policy Local and no local endpoint, connections leave the node. Outside clients have
	// reached the wrong node, but no others may evade the ranges by the node's address.
	translated := slices.DeleteFunc(frontends, func(f processor.Frontend) bool { return f.Drop })
	if ingress := s.outsideInterfaces(); len(ingress) > 0 && len(translated) > 0 {
		outside := accessList(translated, ingress)
		values[models.Key(outside)] = outside
	}
	return values
}

func (s *Service) rangesInside() *guard.SourceRanges {
	inside := &guard.SourceRanges{Interface: s.network.GetHostInterconnectIfName()}
	for _, f := range s.fittingFrontends() {
		r := &guard.SourceRanges_Frontend{Address: f.Addr.Addr().String(), Port: uint32(f.Addr.Port()), Protocol: guardedProtocols[f.Protocol]}
		for _, source := range sourcesOf(f) {
			r.Sources = append(r.Sources, source.String())
		}
		inside.Frontends = append(inside.Frontends, r)
	}
	return inside
}

// fittingFrontends returns the sorted frontends of as many services as SourceRanges can contain. It
// omits services with the most ranges, so that they do not affect others.
func (s *Service) fittingFrontends() (frontends []processor.Frontend) {
	delete(s.appliedLimits, limitRanges)
	rules := map[processor.ID]int{}
	for id, list := range s.sourceRestricted {
		for _, f := range list {
			rules[id] += 1 + len(sourcesOf(f))
		}
	}
	total := 0
	for _, id := range slices.SortedFunc(maps.Keys(rules), func(a, b processor.ID) int { return cmp.Or(cmp.Compare(rules[a], rules[b]), a.Compare(b)) }) {
		list := s.sourceRestricted[id]
		if len(frontends)+len(list) > models.MaxRestrictedFrontends || total+rules[id] > models.MaxRestrictingRules {
			s.noteLimit(id, limitRanges, true)
			continue
		}
		frontends, total = append(frontends, list...), total+rules[id]
	}
	slices.SortFunc(frontends, processor.CompareFrontends)
	return frontends
}

var guardedProtocols = map[processor.Protocol]guard.SourceRanges_Protocol{
	processor.TCP: guard.SourceRanges_TCP, processor.UDP: guard.SourceRanges_UDP, processor.SCTP: guard.SourceRanges_SCTP,
}

func sourcesOf(f processor.Frontend) (list []netip.Prefix) {
	for _, source := range f.Sources {
		if source.Addr().Is6() == f.Addr.Addr().Is6() {
			list = append(list, source)
		}
	}
	return list
}

func accessList(frontends []processor.Frontend, ingress []string) *vpp_acl.ACL {
	list := &vpp_acl.ACL{Name: sourceRangesList, Interfaces: &vpp_acl.ACL_Interfaces{Ingress: ingress}}
	for _, f := range frontends {
		for _, source := range sourcesOf(f) {
			list.Rules = append(list.Rules, ruleFor(f, vpp_acl.ACL_Rule_PERMIT, source))
		}
		list.Rules = append(list.Rules, ruleFor(f, vpp_acl.ACL_Rule_DENY, netip.Prefix{}))
	}
	list.Rules = append(list.Rules, &vpp_acl.ACL_Rule{Action: vpp_acl.ACL_Rule_PERMIT, IpRule: &vpp_acl.ACL_Rule_IpRule{}})
	return list
}

// An invalid source stands for all. Access lists ignore SCTP ports: such a rule applies to the
// whole address.
func ruleFor(f processor.Frontend, action vpp_acl.ACL_Rule_Action, source netip.Prefix) *vpp_acl.ACL_Rule {
	addr := f.Addr.Addr()
	ip := &vpp_acl.ACL_Rule_IpRule_Ip{DestinationNetwork: netip.PrefixFrom(addr, addr.BitLen()).String()}
	if source.IsValid() {
		ip.SourceNetwork = source.String()
	}
	return portRule(action, ip, f.Protocol, nil, onePort(f.Addr))
}

func onePort(addr netip.AddrPort) *vpp_acl.ACL_Rule_IpRule_PortRange {
	return &vpp_acl.ACL_Rule_IpRule_PortRange{LowerPort: uint32(addr.Port()), UpperPort: uint32(addr.Port())}
}

// A nil range stands for all ports.
func portRule(action vpp_acl.ACL_Rule_Action, ip *vpp_acl.ACL_Rule_IpRule_Ip, protocol processor.Protocol, from, to *vpp_acl.ACL_Rule_IpRule_PortRange) *vpp_acl.ACL_Rule {
	rule := &vpp_acl.ACL_Rule_IpRule{Ip: ip}
	switch protocol {
	case processor.TCP:
		rule.Tcp = &vpp_acl.ACL_Rule_IpRule_Tcp{SourcePortRange: from, DestinationPortRange: to}
	case processor.UDP:
		rule.Udp = &vpp_acl.ACL_Rule_IpRule_Udp{SourcePortRange: from, DestinationPortRange: to}
	case processor.SCTP:
		ip.Protocol = protocolSCTP
	}
	return &vpp_acl.ACL_Rule{Action: action, IpRule: rule}
}

const protocolSCTP = 132

func (s *Service) updateSourceRanges(txn controller.UpdateOperations) {
	values := s.sourceRanges()
	for _, key := range rangeKeys {
		switch before, now := s.rendered[key], values[key]; {
		case now == nil && before != nil:
			delete(s.rendered, key)
			txn.Delete(key)
		case now != nil && !proto.Equal(before, now):
			s.put(txn, key, now)
		}
	}
}
