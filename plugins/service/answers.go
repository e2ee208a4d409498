package service

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	vpp_abf "github.com/contiv/contiv/api/ligato/vpp/abf"
	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/plugins/podmanager"
	"github.com/contiv/contiv/plugins/service/processor"
	"google.golang.org/protobuf/proto"
)

// Answers of pods that see the addresses of clients outside, for a vswitch that translates such
// connections, in both directions, in VRF 0. The VRF of pods leads to other nodes and their pods through
// the overlay, so that answers to clients there would not be translated. Forwarding by an access list leads
// all answers of such pods through VRF 0:
//
//	pod ──> access list: from an endpoint's address and port ──> VRF 0: translated back ──> client
//	    └─> everything else ───────────────────────────────────> VRF of pods
//
// An endpoint that a service no longer has goes on to answer its connections, as long as its pod lives. A restarted agent
// knows those that are still listed, ready or not; Kubernetes lists a pod until it is gone, unless its labels or the service change.
//
// Hidden clients have an address that always leads to VRF 0 (answerRoutes).

const (
	answersList = "service-answers"
	// Indexes of the ABFs, and their priority: those of others come first.
	answersABF4, answersABF6 = 0x53564304, 0x53564306
	answersPriority          = 1 << 16
)

// answerer is an endpoint of this node that sees the addresses of clients outside.
type answerer struct {
	protocol processor.Protocol
	addr     netip.AddrPort
}

func (a answerer) compare(b answerer) int {
	return cmp.Or(a.addr.Compare(b.addr), cmp.Compare(a.protocol, b.protocol))
}

// noteAnswers records the endpoints of an IP version of a service that see the addresses of clients outside. Those that are
// not ready any more may have connections from when they were.
func (s *Service) noteAnswers(svc *processor.Service, ipv6 bool) {
	if !s.answersApart() {
		return
	}
	ports := map[string]bool{}
	for _, f := range svc.Frontends {
		if f.KeepSource && f.Kind != processor.ClusterIP {
			ports[f.Port] = true
		}
	}
	if len(ports) == 0 {
		return
	}
	for _, e := range s.services.OnNode(svc.ID, ipv6) {
		if ports[e.Port] {
			s.answering[svc.ID] = append(s.answering[svc.ID], answerer{e.Protocol, e.Addr})
		}
	}
}

// answersApart reports whether answers to some clients outside do not pass VRF 0 by themselves.
func (s *Service) answersApart() bool {
	routing := s.config.Routing()
	return s.ownStack() && routing.PodVRFID != routing.MainVRFID && s.network.GetVxlanBVIIfName() != ""
}

// changesAnswers reports whether a pod may answer through other interfaces.
func (s *Service) changesAnswers(event controller.Event) bool {
	_, changed := event.(*podmanager.PodCustomIfUpdate)
	return changed && s.answersApart()
}

// answers returns the values that lead answers through VRF 0, by key. The pod that is being deleted sends none.
func (s *Service) answers(deleted podmanager.PodID) map[string]proto.Message {
	if !s.answersApart() {
		return nil
	}
	for _, list := range s.answering {
		for _, e := range list {
			s.answerers[e] = true
		}
	}
	for _, pod := range s.podsWithHostPorts() {
		open, _ := s.portsOf(pod)
		for _, f := range open.frontends {
			for _, e := range f.Outside {
				s.answerers[answerer{f.Protocol, e.Addr}] = true
			}
		}
	}
	if len(s.answerers) == 0 {
		return nil
	}
	interfaces := map[netip.Addr][]string{}
	for name, pod := range s.network.PodInterfaces() {
		for _, ip := range s.podAddresses(pod) {
			if pod != deleted {
				interfaces[ip] = append(interfaces[ip], name)
			}
		}
	}
	maps.DeleteFunc(s.answerers, func(e answerer, _ bool) bool { return len(interfaces[e.addr.Addr()]) == 0 })
	return s.answerValues(slices.SortedFunc(maps.Keys(s.answerers), answerer.compare), interfaces)
}

func (s *Service) answerValues(endpoints []answerer, interfaces map[netip.Addr][]string) map[string]proto.Message {
	if len(endpoints) == 0 {
		return nil
	}
	list := &vpp_acl.ACL{Name: answersList}
	abfs := map[bool]*vpp_abf.ABF{}
	for _, e := range endpoints {
		ipv6 := e.addr.Addr().Is6()
		if abfs[ipv6] == nil {
			abfs[ipv6] = answersABF(ipv6)
		}
		// A pod answers through whichever of its interfaces its routes lead.
		for _, name := range slices.Sorted(slices.Values(interfaces[e.addr.Addr()])) {
			at := &vpp_abf.ABF_AttachedInterface{InputInterface: name, Priority: answersPriority, IsIpv6: ipv6}
			if attached := &abfs[ipv6].AttachedInterfaces; !slices.ContainsFunc(*attached, func(o *vpp_abf.ABF_AttachedInterface) bool { return proto.Equal(o, at) }) {
				*attached = append(*attached, at)
			}
		}
		list.Rules = append(list.Rules, fromEndpoint(e))
	}
	values := map[string]proto.Message{models.Key(list): list}
	for _, abf := range abfs {
		values[models.Key(abf)] = abf
	}
	maps.Copy(values, s.overlayRoutes())
	return values
}

// answersABF forwards by VRF 0.
func answersABF(ipv6 bool) *vpp_abf.ABF {
	index, everything := uint32(answersABF4), netip.IPv4Unspecified()
	if ipv6 {
		index, everything = answersABF6, netip.IPv6Unspecified()
	}
	return &vpp_abf.ABF{Index: index, AclName: answersList, ForwardingPaths: []*vpp_abf.ABF_ForwardingPath{{NextHopIp: everything.String()}}}
}

// fromEndpoint returns the rule about what an endpoint sends.
func fromEndpoint(e answerer) *vpp_acl.ACL_Rule {
	ip := &vpp_acl.ACL_Rule_IpRule_Ip{SourceNetwork: netip.PrefixFrom(e.addr.Addr(), e.addr.Addr().BitLen()).String()}
	return portRule(vpp_acl.ACL_Rule_PERMIT, ip, e.protocol, onePort(e.addr), nil)
}

// overlayRoutes lead VRF 0 to the addresses of other nodes inside of the overlay, which only the VRF of pods knows:
// their processes use the same endpoints at other addresses.
func (s *Service) overlayRoutes() map[string]proto.Message {
	values := map[string]proto.Message{}
	routing, plan := s.config.Routing(), s.self.addresses.Plan()
	for _, family := range plan.Families() {
		if !family.Subnets.VXLAN.IsValid() {
			continue
		}
		route := &vpp_l3.Route{
			Type: vpp_l3.Route_INTER_VRF, VrfId: routing.MainVRFID, ViaVrfId: routing.PodVRFID,
			DstNetwork: family.Subnets.VXLAN.Masked().String(),
		}
		values[models.Key(route)] = route
	}
	return values
}

// resyncAnswers requests the values.
func (s *Service) resyncAnswers(txn controller.ResyncOperations) {
	s.answered = s.answers(podmanager.PodID{})
	for key, value := range s.answered {
		txn.Put(key, value)
	}
}

// updateAnswers requests those of the values that have changed.
func (s *Service) updateAnswers(event controller.Event, txn controller.UpdateOperations) {
	var deleted podmanager.PodID
	if e, ok := event.(*podmanager.DeletePod); ok {
		deleted = e.Pod
	}
	wanted := s.answers(deleted)
	for key := range s.answered {
		if wanted[key] == nil {
			txn.Delete(key)
		}
	}
	for key, value := range wanted {
		if !proto.Equal(s.answered[key], value) {
			txn.Put(key, value)
		}
	}
	s.answered = wanted
}
