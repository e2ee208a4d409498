package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/dbresources"
	"github.com/contiv/contiv/plugins/contivconf"
	"github.com/contiv/contiv/plugins/nodesync"
	"github.com/contiv/contiv/plugins/podmanager"
	"github.com/contiv/contiv/plugins/service/processor"
	"github.com/contiv/contiv/plugins/service/renderer/srv6"
	"google.golang.org/protobuf/proto"
)

// Segments makes the vswitch carry services by segment routing (SRv6) if possible, instead of NAT:
//
//	Service ──renderer srv6──> policy, steerings          for carried addresses
//	        └─renderer nat ──> dnat44, dnat66             for all others
//	nodes, pods of this node ─> SIDs and routes to them
//	addresses carried to local pods ──IPNet──> their loopbacks and guards
type Segments struct {
	SIDs    contivconf.SRv6Config
	Pods    Pods
	Network SegmentNetwork
}

// SegmentNetwork wires pods.
type SegmentNetwork interface {
	// GetPodIfNames returns the logical names of the interfaces of a wired pod.
	GetPodIfNames(podmanager.PodID) (vpp, linux, loopback string, exists bool)
	// Serve assigns service addresses to a pod, and returns the values that replace its wiring.
	Serve(podmanager.PodID, []netip.Addr) (map[string]proto.Message, error)
}

type segments struct {
	*Segments
	policies map[string]bool // keys of existing network policies
	off      string          // reason to carry nothing, or ""
	base     map[string]proto.Message
	carried  map[processor.ID]carriage
	// served maps local pod addresses to service addresses.
	served map[netip.Addr]map[netip.Addr]processor.ID
}

// carriage covers both IP versions of a service.
type carriage struct {
	keys []string
	srv6.Carried
}

const (
	offPolicies = "the cluster has network policies, which apply to pod addresses, while segments deliver packets to service addresses: NAT translates all services until the policies are removed"
	offNoIPv6   = "this node has no IPv6 address, over which segments lead: NAT translates its services"
)

func (s *Service) segmentWarnings() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.segments == nil || s.conflictingProxy != "":
		return nil
	case s.segments.off != "":
		return []string{"useSRv6ForServices has no effect at present: " + s.segments.off}
	}
	return nil
}

func (s *segments) limitsOf(id processor.ID) (texts []string) {
	if s == nil {
		return nil
	}
	why := s.carried[id].Why
	for _, addr := range slices.SortedFunc(maps.Keys(why), netip.Addr.Compare) {
		texts = append(texts, fmt.Sprintf("%v is translated, not carried by segments: %s", addr, why[addr]))
	}
	return texts
}

var errNoSegments = errors.New("option useSRv6ForServices: the kernel of this node has no segment routing: it needs Linux 5.3 or later with CONFIG_IPV6_SEG6_LWTUNNEL, and IPv6; set the option to false")

func newSegments(of *Segments) *segments {
	if of == nil {
		return nil
	}
	s := &segments{Segments: of}
	s.reset()
	return s
}

func (s *segments) reset() {
	s.policies, s.base = map[string]bool{}, map[string]proto.Message{}
	s.carried, s.served = map[processor.ID]carriage{}, map[netip.Addr]map[netip.Addr]processor.ID{}
}

func (s *segments) wants(event controller.Event) bool {
	if s == nil {
		return false
	}
	switch e := event.(type) {
	case *controller.KubeStateChange:
		return isPolicy(e.Resource)
	case *nodesync.NodeUpdate, *podmanager.AddPod, *podmanager.DeletePod:
		return true
	}
	return false
}

func isPolicy(resource string) bool {
	return resource == dbresources.Policy || resource == dbresources.ClusterPolicy
}

func (s *segments) note(event controller.Event) {
	e, ok := event.(*controller.KubeStateChange)
	switch {
	case !ok || !isPolicy(e.Resource):
	case e.NewValue == nil:
		delete(s.policies, e.Key)
	default:
		s.policies[e.Key] = true
	}
}

func (s *segments) notePolicies(state controller.KubeState) {
	for _, resource := range []string{dbresources.Policy, dbresources.ClusterPolicy} {
		for key := range state[resource] {
			s.policies[key] = true
		}
	}
}

// The address is invalid if the node has no IPv6 address.
func nodeIPv6(n *nodesync.Node) netip.Addr {
	if n != nil {
		for _, p := range n.VPPIPs {
			if p.Addr().Is6() {
				return p.Addr()
			}
		}
	}
	return netip.Addr{}
}

func (s *Service) judgeSegments() {
	switch {
	case s.conflictingProxy != "":
		s.segments.off = s.conflictingProxy
	case len(s.segments.policies) > 0:
		s.segments.off = offPolicies
	case !nodeIPv6(s.self.nodes.GetAllNodes()[s.self.name]).IsValid():
		s.segments.off = offNoIPv6
	default:
		s.segments.off = ""
	}
}

func (s *Service) segmentOptions() srv6.Options {
	o := srv6.Options{
		SIDs: s.segments.SIDs, NodeOf: s.nodeOf, External: !s.config.NatExternalTraffic(),
		LocalWeight: uint32(s.proxy.Settings.LocalEndpointWeight),
	}
	if !s.caps.HostStackShared {
		routing := s.config.Routing()
		o.MainVRF, o.PodVRF = routing.MainVRFID, routing.PodVRFID
	}
	return o
}

// nodeOf implements srv6.Options.NodeOf.
func (s *Service) nodeOf(endpoint netip.Addr) (node netip.Addr, isPod bool) {
	plan := s.self.addresses.Plan()
	for _, family := range plan.Families() {
		if !family.Subnets.Pods.Contains(endpoint) {
			continue
		}
		for _, n := range s.self.nodes.GetAllNodes() {
			if slices.ContainsFunc(s.self.addresses.PodSubnets(n), func(p netip.Prefix) bool { return p.Contains(endpoint) }) {
				return nodeIPv6(n), true
			}
		}
		return netip.Addr{}, true
	}
	return netip.Addr{}, false
}

func (s *Service) localPods(gone podmanager.PodID) map[netip.Addr]podmanager.PodID {
	pods := map[netip.Addr]podmanager.PodID{}
	for id := range s.segments.Pods.LocalPods() {
		if id == gone {
			continue
		}
		for _, addr := range s.self.addresses.GetPodIPs(id) {
			pods[addr] = id
		}
	}
	return pods
}

// segmentBase returns the values that all services share, or none while nothing is carried.
func (s *Service) segmentBase(gone podmanager.PodID) map[string]proto.Message {
	if s.segments.off != "" {
		return nil
	}
	n := srv6.Node{Pods: map[netip.Addr]string{}}
	for name, node := range s.self.nodes.GetAllNodes() {
		addr := nodeIPv6(node)
		switch {
		case !addr.IsValid():
		case name == s.self.name:
			n.Addr = addr
		default:
			n.Others = append(n.Others, addr)
		}
	}
	for addr, id := range s.localPods(gone) {
		if iface, _, _, wired := s.segments.Network.GetPodIfNames(id); wired {
			n.Pods[addr] = iface
		}
	}
	return n.Render(s.segmentOptions())
}

// carry adds the SRv6 values of one IP version of a service, and returns the rest for NAT.
func (s *Service) carry(svc *processor.Service, values map[string]proto.Message) *processor.Service {
	if s.segments == nil || s.segments.off != "" {
		return svc
	}
	carried := srv6.Carry(svc, s.segmentOptions())
	maps.Copy(values, carried.Values)
	now := s.segments.carried[svc.ID]
	now.keys = slices.AppendSeq(now.keys, maps.Keys(carried.Values))
	now.Addrs = append(now.Addrs, carried.Addrs...)
	if now.Why == nil {
		now.Why, now.Endpoints = map[netip.Addr]string{}, map[netip.Addr][]netip.Addr{}
	}
	maps.Copy(now.Why, carried.Why)
	maps.Copy(now.Endpoints, carried.Endpoints)
	s.segments.carried[svc.ID] = now
	for addr, endpoints := range carried.Endpoints {
		for _, e := range endpoints {
			if s.segments.served[e] == nil {
				s.segments.served[e] = map[netip.Addr]processor.ID{}
			}
			s.segments.served[e][addr] = svc.ID
		}
	}
	rest := *svc
	rest.Frontends = nil
	for _, f := range svc.Frontends {
		switch {
		case !carried.Has(f.Addr.Addr()):
			rest.Frontends = append(rest.Frontends, f)
		case s.caps.HostStackShared:
			rest.Frontends = append(rest.Frontends, untranslated(f))
		}
	}
	return &rest
}

// untranslated returns a frontend with itself as the endpoint, except for the node's own processes.
// It exempts the ports of the service from the refusal of untranslated cluster IPs. Connections of
// the node itself are translated, because the kernel's local SIDs process only received packets.
func untranslated(f processor.Frontend) processor.Frontend {
	f.Kind, f.KeepSource, f.Node = processor.ExternalIP, true, f.Inside
	f.Inside = []processor.Endpoint{{Addr: f.Addr}}
	f.Outside = f.Inside
	return f
}

// dropCarriage returns the keys of a service's values, and its local pod addresses.
func (s *segments) dropCarriage(id processor.ID) (keys []string, pods []netip.Addr) {
	if s == nil {
		return nil, nil
	}
	was := s.carried[id]
	delete(s.carried, id)
	for addr, endpoints := range was.Endpoints {
		for _, e := range endpoints {
			if s.served[e][addr] == id {
				delete(s.served[e], addr)
			}
			pods = append(pods, e)
		}
	}
	return was.keys, pods
}

func (s *segments) servers(id processor.ID) (pods []netip.Addr) {
	if s == nil {
		return nil
	}
	for _, endpoints := range s.carried[id].Endpoints {
		pods = append(pods, endpoints...)
	}
	return pods
}

func (s *Service) serve(txn controller.ResyncOperations, pods ...podmanager.PodID) error {
	var errs []error
	slices.SortFunc(pods, func(a, b podmanager.PodID) int { return cmpPods(a, b) })
	for _, id := range slices.Compact(pods) {
		var addrs []netip.Addr
		for _, own := range s.self.addresses.GetPodIPs(id) {
			addrs = slices.AppendSeq(addrs, maps.Keys(s.segments.served[own]))
		}
		slices.SortFunc(addrs, netip.Addr.Compare)
		values, err := s.segments.Network.Serve(id, slices.Compact(addrs))
		errs = append(errs, err)
		for key, value := range values {
			txn.Put(key, value)
		}
	}
	return errors.Join(errs...)
}

func cmpPods(a, b podmanager.PodID) int {
	return processor.ID{Namespace: a.Namespace, Name: a.Name}.Compare(processor.ID{Namespace: b.Namespace, Name: b.Name})
}

func (s *Service) resyncSegments(txn controller.ResyncOperations) error {
	if s.segments == nil {
		return nil
	}
	s.segments.base = s.segmentBase(podmanager.PodID{})
	for key, value := range s.segments.base {
		txn.Put(key, value)
	}
	return s.serve(txn, slices.Collect(maps.Keys(s.segments.Pods.LocalPods()))...)
}

// updateSegments returns the services to render again.
func (s *Service) updateSegments(_ context.Context, event controller.Event, txn controller.UpdateOperations) (changed []processor.ID, err error) {
	var gone podmanager.PodID
	off := s.segments.off
	s.segments.note(event)
	s.judgeSegments()
	if e, ok := event.(*podmanager.DeletePod); ok {
		gone = e.Pod
		_, err = s.segments.Network.Serve(gone, nil) // removes its values
	}
	base := s.segmentBase(gone)
	for key := range s.segments.base {
		if base[key] == nil {
			txn.Delete(key)
		}
	}
	for key, value := range base {
		if !proto.Equal(s.segments.base[key], value) {
			txn.Put(key, proto.CloneOf(value))
		}
	}
	s.segments.base = base
	if e, ok := event.(*podmanager.AddPod); ok {
		err = s.serve(txn, e.Pod)
	}
	if _, ofNode := event.(*nodesync.NodeUpdate); ofNode || off != s.segments.off {
		changed = s.services.IDs()
	}
	return changed, err
}

func (s *Service) serveAgain(txn controller.UpdateOperations, addrs []netip.Addr) error {
	if len(addrs) == 0 {
		return nil
	}
	local := s.localPods(podmanager.PodID{})
	var pods []podmanager.PodID
	for _, addr := range addrs {
		if id, ok := local[addr]; ok {
			pods = append(pods, id)
		}
	}
	return s.serve(txn, pods...)
}
