package proxy

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/guard"
	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	"github.com/contiv/contiv/internal/plugins/service/accesslist"
	"github.com/contiv/contiv/internal/plugins/service/localnode"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// The list permits everything else. Its name sorts after other access lists of these interfaces, so
// that an author of services cannot disable them.
const sourceRangesList = "~service-source-ranges"

var rangeKeys = []string{models.Key(&vpp_acl.ACL{Name: sourceRangesList}), models.SourceRanges.KeyPrefix()}

// sourceRanges holds the source ranges of services for a vswitch whose mappings apply to all
// clients. Packets of other clients are dropped by an access list on outside interfaces, and by
// SourceRanges elsewhere:
//
//	client outside ──> main interface ──> access list ──> translation ──> endpoint
//	pod, host ───────> SourceRanges ────────────────────> translation
//
// Interfaces of pods and of the host translate before their access lists, which would see
// endpoints.
type sourceRanges struct {
	node       *localnode.Node
	restricted map[processor.ID][]processor.Frontend
	unfit      map[processor.ID]bool // services whose ranges do not hold for pods and processes
}

func newSourceRanges(node *localnode.Node) *sourceRanges {
	return &sourceRanges{node: node, restricted: map[processor.ID][]processor.Frontend{}, unfit: map[processor.ID]bool{}}
}

func (s *sourceRanges) reset() {
	clear(s.restricted)
	clear(s.unfit)
}

// set replaces the restricted frontends of a service.
func (s *sourceRanges) set(id processor.ID, frontends []processor.Frontend) {
	if s.restricted[id] = frontends; len(frontends) == 0 {
		delete(s.restricted, id)
	}
}

// values returns the values of all services.
func (s *sourceRanges) values() map[string]proto.Message {
	clear(s.unfit)
	var frontends []processor.Frontend
	for _, list := range s.restricted {
		frontends = append(frontends, list...)
	}
	all := map[string]proto.Message{}
	if len(frontends) == 0 {
		return all
	}
	slices.SortFunc(frontends, processor.CompareFrontends)
	if inside := s.rangesInside(); len(inside.Frontends) > 0 {
		all[models.Key(inside)] = inside
	}
	// With policy Local and no local endpoint, connections leave the node. Outside clients have
	// reached the wrong node, but no others may evade the ranges by the node's address.
	translated := slices.DeleteFunc(frontends, func(f processor.Frontend) bool { return f.Drop })
	if ingress := s.node.OutsideInterfaces(); len(ingress) > 0 && len(translated) > 0 {
		outside := accessList(translated, ingress)
		all[models.Key(outside)] = outside
	}
	return all
}

func (s *sourceRanges) rangesInside() *guard.SourceRanges {
	inside := &guard.SourceRanges{Interface: s.node.Network.GetHostInterconnectIfName()}
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
func (s *sourceRanges) fittingFrontends() (frontends []processor.Frontend) {
	rules := map[processor.ID]int{}
	for id, list := range s.restricted {
		for _, f := range list {
			rules[id] += 1 + len(sourcesOf(f))
		}
	}
	total := 0
	for _, id := range slices.SortedFunc(maps.Keys(rules), func(a, b processor.ID) int { return cmp.Or(cmp.Compare(rules[a], rules[b]), a.Compare(b)) }) {
		list := s.restricted[id]
		if len(frontends)+len(list) > models.MaxRestrictedFrontends || total+rules[id] > models.MaxRestrictingRules {
			s.unfit[id] = true
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

// An invalid source stands for all.
func ruleFor(f processor.Frontend, action vpp_acl.ACL_Rule_Action, source netip.Prefix) *vpp_acl.ACL_Rule {
	addr := f.Addr.Addr()
	ip := &vpp_acl.ACL_Rule_IpRule_Ip{DestinationNetwork: netip.PrefixFrom(addr, addr.BitLen()).String()}
	if source.IsValid() {
		ip.SourceNetwork = source.String()
	}
	return accesslist.Rule(action, ip, f.Protocol, nil, accesslist.OnePort(f.Addr))
}
