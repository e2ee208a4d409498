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

// Pods that see external clients send replies to them. A vswitch with its own stack translates in
// VRF 0, in both directions, but the VRF of pods routes other nodes and their pods to the overlay,
// untranslated. An access list forwards these replies to VRF 0:
//
//	pod ──> access list: from an endpoint's address and port ──> VRF 0: translated back ──> client
//	    └─> everything else ───────────────────────────────────> VRF of pods
//
// A removed endpoint keeps serving its connections as long as its pod lives. A restarted agent
// knows only endpoints that are still listed, ready or not.
//
// Masqueraded clients have an address that always leads to VRF 0 (answerRoutes).

const (
	answersList = "service-answers"
	// ABF indexes and priority. ABFs of other owners come first.
	answersABF4, answersABF6 = 0x53564304, 0x53564306
	answersPriority          = 1 << 16
)

// directEndpoint is a local endpoint that sees external clients.
type directEndpoint struct {
	protocol processor.Protocol
	addr     netip.AddrPort
}

func (a directEndpoint) compare(b directEndpoint) int {
	return cmp.Or(a.addr.Compare(b.addr), cmp.Compare(a.protocol, b.protocol))
}

// noteAnswers includes endpoints that are not ready: they may still have connections.
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
			s.directByService[svc.ID] = append(s.directByService[svc.ID], directEndpoint{e.Protocol, e.Addr})
		}
	}
}

// answersApart reports whether replies to some external clients bypass VRF 0.
func (s *Service) answersApart() bool {
	routing := s.config.Routing()
	return s.ownStack() && routing.PodVRFID != routing.MainVRFID && s.network.GetVxlanBVIIfName() != ""
}

func (s *Service) changesAnswers(event controller.Event) bool {
	_, changed := event.(*podmanager.PodCustomIfUpdate)
	return changed && s.answersApart()
}

// A pod being deleted sends no replies.
func (s *Service) replyValues(deleted podmanager.PodID) map[string]proto.Message {
	if !s.answersApart() {
		return nil
	}
	for _, list := range s.directByService {
		for _, e := range list {
			s.directEndpoints[e] = true
		}
	}
	for _, pod := range s.podsWithHostPorts() {
		open, _ := s.portsOf(pod)
		for _, f := range open.frontends {
			for _, e := range f.Outside {
				s.directEndpoints[directEndpoint{f.Protocol, e.Addr}] = true
			}
		}
	}
	if len(s.directEndpoints) == 0 {
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
	maps.DeleteFunc(s.directEndpoints, func(e directEndpoint, _ bool) bool { return len(interfaces[e.addr.Addr()]) == 0 })
	return s.replyValuesOf(slices.SortedFunc(maps.Keys(s.directEndpoints), directEndpoint.compare), interfaces)
}

func (s *Service) replyValuesOf(endpoints []directEndpoint, interfaces map[netip.Addr][]string) map[string]proto.Message {
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
		// The pod's routes select the interface of a reply.
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

func answersABF(ipv6 bool) *vpp_abf.ABF {
	index, everything := uint32(answersABF4), netip.IPv4Unspecified()
	if ipv6 {
		index, everything = answersABF6, netip.IPv6Unspecified()
	}
	return &vpp_abf.ABF{Index: index, AclName: answersList, ForwardingPaths: []*vpp_abf.ABF_ForwardingPath{{NextHopIp: everything.String()}}}
}

func fromEndpoint(e directEndpoint) *vpp_acl.ACL_Rule {
	ip := &vpp_acl.ACL_Rule_IpRule_Ip{SourceNetwork: netip.PrefixFrom(e.addr.Addr(), e.addr.Addr().BitLen()).String()}
	return portRule(vpp_acl.ACL_Rule_PERMIT, ip, e.protocol, onePort(e.addr), nil)
}

// overlayRoutes returns routes for the overlay addresses of other nodes from VRF 0 to the VRF of pods,
// the only one that knows them. Processes of other nodes reach endpoints from these addresses.
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

func (s *Service) resyncAnswers(txn controller.ResyncOperations) {
	s.answered = s.replyValues(podmanager.PodID{})
	for key, value := range s.answered {
		txn.Put(key, value)
	}
}

func (s *Service) updateAnswers(event controller.Event, txn controller.UpdateOperations) {
	var deleted podmanager.PodID
	if e, ok := event.(*podmanager.DeletePod); ok {
		deleted = e.Pod
	}
	wanted := s.replyValues(deleted)
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
