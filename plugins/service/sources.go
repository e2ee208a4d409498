package service

import (
	"net/netip"
	"slices"

	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/plugins/service/processor"
	"google.golang.org/protobuf/proto"
)

// Source ranges for a vswitch whose mappings are for all clients. One access list, on the interfaces for
// clients outside, drops what others send to the frontends:
//
//	client outside ──> main interface ──> access list ──> translation ──> endpoint
//	pod, host ──────────────────────────────────────────> translation
//
// Interfaces of pods and of the host translate before they look at access lists, which see endpoints
// there. Their clients are not restricted.

// sourceRangesList is behind access lists of others on these interfaces, which are sorted by name: it
// permits everything else. Whoever may make services must not turn off what others deny there.
const sourceRangesList = "~service-source-ranges"

var sourceRangesKey = models.Key(&vpp_acl.ACL{Name: sourceRangesList})

// noteRanges records which frontends of an IP version of a service have source ranges.
func (s *Service) noteRanges(svc *processor.Service) {
	if s.caps.ClientScopes {
		return
	}
	for _, f := range svc.Frontends {
		if f.Restricted && !f.Drop {
			s.restricted[svc.ID] = append(s.restricted[svc.ID], f)
		}
	}
}

// sourceRanges returns the access list, nil if no frontend has source ranges.
func (s *Service) sourceRanges() *vpp_acl.ACL {
	var frontends []processor.Frontend
	for _, list := range s.restricted {
		frontends = append(frontends, list...)
	}
	ingress := s.outsideInterfaces()
	if len(frontends) == 0 || len(ingress) == 0 {
		return nil
	}
	slices.SortFunc(frontends, processor.CompareFrontends)
	list := &vpp_acl.ACL{Name: sourceRangesList, Interfaces: &vpp_acl.ACL_Interfaces{Ingress: ingress}}
	for _, f := range frontends {
		for _, source := range f.Sources {
			if source.Addr().Is6() == f.Addr.Addr().Is6() {
				list.Rules = append(list.Rules, ruleFor(f, vpp_acl.ACL_Rule_PERMIT, source))
			}
		}
		list.Rules = append(list.Rules, ruleFor(f, vpp_acl.ACL_Rule_DENY, netip.Prefix{}))
	}
	list.Rules = append(list.Rules, &vpp_acl.ACL_Rule{Action: vpp_acl.ACL_Rule_PERMIT, IpRule: &vpp_acl.ACL_Rule_IpRule{}})
	return list
}

// ruleFor returns a rule about packets to a frontend; an invalid source stands for all. Access lists know
// no ports of SCTP: a rule about one is about all of the address.
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

// portRule returns a rule about packets between ports; nil: from any, or to any.
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

// updateSourceRanges requests the access list if it has changed.
func (s *Service) updateSourceRanges(txn controller.UpdateOperations) {
	list := s.sourceRanges()
	switch before := s.rendered[sourceRangesKey]; {
	case list == nil && before != nil:
		delete(s.rendered, sourceRangesKey)
		txn.Delete(sourceRangesKey)
	case list != nil && !proto.Equal(before, list):
		s.put(txn, sourceRangesKey, list)
	}
}
