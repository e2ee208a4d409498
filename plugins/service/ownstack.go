package service

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/plugins/contivconf"
	"github.com/contiv/contiv/plugins/service/processor"
	"github.com/contiv/contiv/plugins/service/renderer/nat"
	"google.golang.org/protobuf/proto"
)

// ownStack reports whether the vswitch has its own network stack and can translate. That needs VRF 0.
func (s *Service) ownStack() bool {
	return !s.caps.HostStackShared && s.config.Routing().MainVRFID == 0
}

func (s *Service) natOptions() nat.Options {
	o := nat.Options{Loopback6: s.self.loopback(true), LocalWeight: 1, OneScope: !s.caps.ClientScopes}
	if s.ownStack() {
		o.Loopback4 = s.self.loopback(false)
		if s.config.Resolved().Stolen == nil {
			o.Refuser4, o.Refuser6 = s.self.host(false), s.self.host(true)
		} else { // the host has no separate address
			o.Shared, o.Host = s.openAddresses(), s.self.ownAddresses()
		}
	}
	return o
}

// openAddresses returns the node's addresses on which the vswitch opens ports.
func (s *Service) openAddresses() (list []netip.Addr) {
	if !s.ownStack() {
		return s.self.ownAddresses()
	}
	if own := s.self.nodes.GetAllNodes()[s.self.name]; own != nil {
		for _, p := range own.VPPIPs {
			list = append(list, p.Addr())
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

// outsideInterfaces includes the overlay, because pods of other nodes are outside.
func (s *Service) outsideInterfaces() (list []string) {
	if !s.ownStack() {
		return nil
	}
	for _, name := range []string{s.network.GetMainInterface(), s.network.GetVxlanBVIIfName()} {
		if name != "" {
			list = append(list, name)
		}
	}
	for _, other := range s.config.Resolved().Other {
		list = append(list, other.Name)
	}
	return list
}

// translatedByRoutes returns the interfaces on which the vswitch translates by routes alone, in
// both directions. They include the host interface if the host shares a card: packets that VPP
// punts to a shared address pass no interface features (stn_ip46_punt_fn), so that replies to the
// host's processes would not be translated back.
func (s *Service) translatedByRoutes() []string {
	list := s.outsideInterfaces()
	if host := s.network.GetHostInterconnectIfName(); s.ownStack() && s.config.Resolved().Stolen != nil && host != "" {
		list = append(list, host)
	}
	return list
}

// serviceNetwork returns the network without cluster IPs. A vswitch that shares the host's stack
// finds the uplinks, and the networks of pods, by its routes.
func (s *Service) serviceNetwork() *contiv_nat.ServiceNetwork {
	n := &contiv_nat.ServiceNetwork{Inside: s.self.insidePrefixes(), OutsideInterfaces: s.translatedByRoutes()}
	if !s.ownStack() {
		return n
	}
	if name := s.network.GetMainInterface(); name != "" {
		n.Uplinks = append(n.Uplinks, name)
	}
	for _, other := range s.config.Resolved().Other {
		n.Uplinks = append(n.Uplinks, other.Name)
	}
	if s.config.Routing().NodeToNodeTransport == contivconf.VXLANTransport {
		plan := s.self.addresses.Plan()
		for _, family := range plan.Families() {
			for _, p := range []netip.Prefix{family.Subnets.Pods, family.Subnets.VPPHost, family.Subnets.VXLAN} {
				if p.IsValid() {
					n.Overlay = append(n.Overlay, p.String())
				}
			}
		}
	}
	return n
}

// answerRoutes returns the routes that lead replies to masqueraded clients into VRF 0, which translates
// them back.
func (s *Service) answerRoutes() map[string]proto.Message {
	values := map[string]proto.Message{}
	routing := s.config.Routing()
	if !s.ownStack() || routing.PodVRFID == routing.MainVRFID {
		return values
	}
	for _, ipv6 := range []bool{false, true} {
		if loopback := s.self.loopback(ipv6); loopback.IsValid() {
			route := &vpp_l3.Route{
				Type: vpp_l3.Route_INTER_VRF, VrfId: routing.PodVRFID, ViaVrfId: routing.MainVRFID,
				DstNetwork: netip.PrefixFrom(loopback, loopback.BitLen()).String(),
			}
			values[models.Key(route)] = route
		}
	}
	return values
}

// Limits of a vswitch without client scopes. Only limitNoResets can be fixed on the node.
const (
	limitRanges   = "loadBalancerSourceRanges do not hold for pods and processes of this node: services have more ports and ranges than VPP compares, and these have the most"
	limitResets   = "resetRemovedEndpoints has no effect for clients outside with an endpoint on another node, because neither has a socket on this node"
	limitNoResets = "resetRemovedEndpoints has no effect on this node: its Linux kernel lacks CONFIG_INET_DIAG_DESTROY"
	limitSelf     = "a pod that is reached at another interface than eth0 (contivpp.io/service-endpoint-if) does not reach itself through its service: VPP compares addresses, and the pod's kernel drops packets from its own address"
	limitAffinity = "sessionAffinity has no time-out on this node: VPP chooses the endpoint by the client's address"
)

func (s *Service) noteLimits(id processor.ID, svc *processor.Service) {
	if s.caps.ClientScopes {
		return
	}
	resets := s.proxy.Settings.ResetRemovedEndpoints
	tcp := func(f processor.Frontend) bool { return f.Protocol == processor.TCP }
	fromOutside := func(f processor.Frontend) bool { return tcp(f) && f.Kind != processor.ClusterIP && !f.KeepSource }
	for limit, applies := range map[string]bool{
		limitResets:   resets && s.caps.ResetsConnections && slices.ContainsFunc(svc.Frontends, fromOutside),
		limitNoResets: resets && !s.caps.ResetsConnections && slices.ContainsFunc(svc.Frontends, tcp),
		limitAffinity: svc.Affinity > 0,
		limitSelf: slices.ContainsFunc(svc.Frontends, func(f processor.Frontend) bool {
			return slices.ContainsFunc(f.Outside, func(e processor.Endpoint) bool { return e.Local && e.Interface != "" })
		}),
	} {
		s.noteLimit(id, limit, applies)
	}
}

func (s *Service) noteLimit(id processor.ID, limit string, applies bool) {
	if !applies {
		return
	}
	if s.appliedLimits[limit] == nil {
		s.appliedLimits[limit] = map[processor.ID]string{}
	}
	s.appliedLimits[limit][id] = ""
}

func with(text, about string) string {
	if about == "" {
		return text
	}
	return text + " (" + about + ")"
}

func (s *Service) forgetLimits(id processor.ID) {
	for _, ids := range s.appliedLimits {
		delete(ids, id)
	}
}

// The caller holds the lock.
func (s *Service) limitsOf(id processor.ID) (texts []string) {
	for _, limit := range slices.Sorted(maps.Keys(s.appliedLimits)) {
		if about, applies := s.appliedLimits[limit][id]; applies {
			texts = append(texts, with(limit, about))
		}
	}
	for _, l := range s.services.LostBy(id) {
		texts = append(texts, fmt.Sprintf("%v/%s is one of %s, which has it", l.Addr, l.Protocol, l.HeldBy))
	}
	texts = append(texts, s.refusals(id)...)
	texts = append(texts, s.services.Foreign(id)...)
	if s.services.HasNodePorts(id) && s.closed() {
		texts = append(texts, s.closedText())
	}
	return append(texts, s.segments.limitsOf(id)...)
}

// Notes returns limits that cannot be fixed on the node, and whether services are left to
// kube-proxy.
func (s *Service) Notes() []string {
	notes := s.leftNotes()
	if text := s.noNodePorts(); text != "" {
		notes = append(notes, text)
	}
	if text := s.tracking.note(); text != "" {
		notes = append(notes, text)
	}
	return append(notes, s.limits(func(limit string) bool { return limit != limitNoResets })...)
}

func (s *Service) noNodePorts() string {
	if s.proxy == nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed() || !slices.ContainsFunc(s.services.IDs(), s.services.HasNodePorts) {
		return ""
	}
	return s.closedText()
}

// closed reports whether node ports are open on no local address. The caller holds the lock.
func (s *Service) closed() bool {
	node := s.services.Node()
	return s.translates() && len(s.proxy.Settings.NodePortAddresses) > 0 && len(node.Addresses) > 0 && len(node.NodePorts) == 0
}

func (s *Service) closedText() string {
	return fmt.Sprintf("node ports are open, and healthCheckNodePort is answered, on no address of this node: nodePortAddresses in service.conf has %v, and none of %v", s.proxy.Settings.NodePortAddresses, s.services.Node().Addresses)
}

func (s *Service) limits(selected func(limit string) bool) (texts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, limit := range slices.Sorted(maps.Keys(s.appliedLimits)) {
		if !selected(limit) {
			continue
		}
		var ids []string
		for id, about := range s.appliedLimits[limit] {
			ids = append(ids, with(id.String(), about))
		}
		slices.Sort(ids)
		if len(ids) > 0 {
			texts = append(texts, fmt.Sprintf("%s; services: %s", limit, strings.Join(ids, ", ")))
		}
	}
	return texts
}
