package proxy

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/service/localnode"
	"github.com/contiv/contiv/internal/plugins/service/podports"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"github.com/contiv/contiv/internal/plugins/service/renderer/srv6"
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
	Pods    podports.Pods
	Network SegmentNetwork
}

// SegmentNetwork wires pods.
type SegmentNetwork interface {
	// GetPodIfNames returns the logical names of the interfaces of a wired pod.
	GetPodIfNames(podmanager.PodID) (vpp, linux, loopback string, exists bool)
	// Serve assigns service addresses to a pod, and returns the values that replace its wiring.
	Serve(podmanager.PodID, []netip.Addr) (map[string]proto.Message, error)
}

// segments is the state of Segments. A nil pointer carries nothing.
type segments struct {
	*Segments
	node     *localnode.Node
	policies map[string]bool // keys of existing network policies
	off      string          // reason to carry nothing, or ""
	base     map[string]proto.Message
	// served maps local pod addresses to service addresses.
	served map[netip.Addr]map[netip.Addr]processor.ID
}

const (
	offPolicies = "the cluster has network policies, which apply to pod addresses, while segments deliver packets to service addresses: NAT translates all services until the policies are removed"
	offNoIPv6   = "this node has no IPv6 address, over which segments lead: NAT translates its services"
)

func newSegments(node *localnode.Node, wanted *Segments) *segments {
	if wanted == nil {
		return nil
	}
	s := &segments{Segments: wanted, node: node}
	s.clear()
	return s
}

func (s *segments) clear() {
	s.policies, s.base, s.served = map[string]bool{}, map[string]proto.Message{}, map[netip.Addr]map[netip.Addr]processor.ID{}
}

// reset forgets the served addresses, and records the network policies.
func (s *segments) reset(state controller.KubeState, conflicting string) {
	if s == nil {
		return
	}
	s.clear()
	for _, resource := range []string{kubestate.Policy, kubestate.ClusterPolicy} {
		for key := range state[resource] {
			s.policies[key] = true
		}
	}
	s.judge(conflicting)
}

// changedBy reports whether an event affects segments.
func (s *segments) changedBy(event controller.Event) bool {
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
	return resource == kubestate.Policy || resource == kubestate.ClusterPolicy
}

// record records a change of a network policy.
func (s *segments) record(event controller.Event) {
	e, ok := event.(*controller.KubeStateChange)
	switch {
	case !ok || !isPolicy(e.Resource):
	case e.NewValue == nil:
		delete(s.policies, e.Key)
	default:
		s.policies[e.Key] = true
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

// judge decides whether segments carry anything.
func (s *segments) judge(conflicting string) {
	switch {
	case conflicting != "":
		s.off = conflicting
	case len(s.policies) > 0:
		s.off = offPolicies
	case !nodeIPv6(s.node.Nodes.GetAllNodes()[s.node.Name]).IsValid():
		s.off = offNoIPv6
	default:
		s.off = ""
	}
}

func (s *segments) options() srv6.Options {
	o := srv6.Options{
		SIDs: s.SIDs, NodeOf: s.nodeOf, External: !s.node.Config.NatExternalTraffic(),
		LocalWeight: uint32(s.node.Settings.LocalEndpointWeight),
	}
	if !s.node.Caps.HostStackShared {
		routing := s.node.Config.Routing()
		o.MainVRF, o.PodVRF = routing.MainVRFID, routing.PodVRFID
	}
	return o
}

// nodeOf implements srv6.Options.NodeOf.
func (s *segments) nodeOf(endpoint netip.Addr) (node netip.Addr, isPod bool) {
	plan := s.node.Addresses.Plan()
	for _, family := range plan.Families() {
		if !family.Subnets.Pods.Contains(endpoint) {
			continue
		}
		for _, n := range s.node.Nodes.GetAllNodes() {
			if slices.ContainsFunc(s.node.Addresses.PodSubnets(n), func(p netip.Prefix) bool { return p.Contains(endpoint) }) {
				return nodeIPv6(n), true
			}
		}
		return netip.Addr{}, true
	}
	return netip.Addr{}, false
}

func (s *segments) localPods(gone podmanager.PodID) map[netip.Addr]podmanager.PodID {
	pods := map[netip.Addr]podmanager.PodID{}
	for id := range s.Pods.LocalPods() {
		if id == gone {
			continue
		}
		for _, addr := range s.node.Addresses.GetPodIPs(id) {
			pods[addr] = id
		}
	}
	return pods
}

// shared returns the values that all services share, or none while nothing is carried.
func (s *segments) shared(gone podmanager.PodID) map[string]proto.Message {
	if s.off != "" {
		return nil
	}
	n := srv6.Node{Pods: map[netip.Addr]string{}}
	for name, node := range s.node.Nodes.GetAllNodes() {
		addr := nodeIPv6(node)
		switch {
		case !addr.IsValid():
		case name == s.node.Name:
			n.Addr = addr
		default:
			n.Others = append(n.Others, addr)
		}
	}
	for addr, id := range s.localPods(gone) {
		if iface, _, _, wired := s.Network.GetPodIfNames(id); wired {
			n.Pods[addr] = iface
		}
	}
	return n.Render(s.options())
}

// carriage describes the carried addresses of a service, of both IP versions.
type carriage struct {
	keys []string // of the values
	// endpoints contains the local endpoints by carried address.
	endpoints map[netip.Addr][]netip.Addr
	// translated explains why an address is not carried.
	translated map[netip.Addr]string
}

// carry adds the SRv6 values of one IP version of a service, and returns the rest for NAT.
func (s *segments) carry(svc *processor.Service, t *translation) *processor.Service {
	if s == nil || s.off != "" {
		return svc
	}
	carried := srv6.Carry(svc, s.options())
	maps.Copy(t.values, carried.Values)
	t.carried.add(carried)
	rest := *svc
	rest.Frontends = nil
	for _, f := range svc.Frontends {
		switch {
		case !carried.Has(f.Addr.Addr()):
			rest.Frontends = append(rest.Frontends, f)
		case s.node.Caps.HostStackShared:
			rest.Frontends = append(rest.Frontends, untranslated(f))
		}
	}
	return &rest
}

func (c *carriage) add(more srv6.Carried) {
	c.keys = slices.AppendSeq(c.keys, maps.Keys(more.Values))
	if c.endpoints == nil {
		c.endpoints, c.translated = map[netip.Addr][]netip.Addr{}, map[netip.Addr]string{}
	}
	maps.Copy(c.endpoints, more.Endpoints)
	maps.Copy(c.translated, more.Why)
}

func (c *carriage) limits() (texts []string) {
	for _, addr := range slices.SortedFunc(maps.Keys(c.translated), netip.Addr.Compare) {
		texts = append(texts, fmt.Sprintf("%v is translated, not carried by segments: %s", addr, c.translated[addr]))
	}
	return texts
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

// replace records the carried addresses of a service. It returns the addresses of local pods that
// served the service before or after.
func (s *segments) replace(id processor.ID, before, after carriage) (pods []netip.Addr) {
	if s == nil {
		return nil
	}
	for addr, endpoints := range before.endpoints {
		for _, e := range endpoints {
			if s.served[e][addr] == id {
				delete(s.served[e], addr)
			}
			pods = append(pods, e)
		}
	}
	for addr, endpoints := range after.endpoints {
		for _, e := range endpoints {
			if s.served[e] == nil {
				s.served[e] = map[netip.Addr]processor.ID{}
			}
			s.served[e][addr] = id
			pods = append(pods, e)
		}
	}
	return pods
}

// serve assigns service addresses to pods.
func (s *segments) serve(txn controller.ResyncOperations, pods ...podmanager.PodID) error {
	var errs []error
	slices.SortFunc(pods, comparePods)
	for _, id := range slices.Compact(pods) {
		var addrs []netip.Addr
		for _, own := range s.node.Addresses.GetPodIPs(id) {
			addrs = slices.AppendSeq(addrs, maps.Keys(s.served[own]))
		}
		slices.SortFunc(addrs, netip.Addr.Compare)
		values, err := s.Network.Serve(id, slices.Compact(addrs))
		errs = append(errs, err)
		for key, value := range values {
			txn.Put(key, value)
		}
	}
	return errors.Join(errs...)
}

func comparePods(a, b podmanager.PodID) int {
	return processor.ID{Namespace: a.Namespace, Name: a.Name}.Compare(processor.ID{Namespace: b.Namespace, Name: b.Name})
}

func (s *segments) resync(txn controller.ResyncOperations) error {
	if s == nil {
		return nil
	}
	s.base = s.shared(podmanager.PodID{})
	for key, value := range s.base {
		txn.Put(key, value)
	}
	return s.serve(txn, slices.Collect(maps.Keys(s.Pods.LocalPods()))...)
}

// update updates the shared values and the pod of an event. It reports whether all services must be
// rendered again.
func (s *segments) update(event controller.Event, txn controller.UpdateOperations) (all bool, err error) {
	var gone podmanager.PodID
	off := s.off
	s.record(event)
	s.judge("")
	if e, ok := event.(*podmanager.DeletePod); ok {
		gone = e.Pod
		_, err = s.Network.Serve(gone, nil) // removes its values
	}
	base := s.shared(gone)
	for key := range s.base {
		if base[key] == nil {
			txn.Delete(key)
		}
	}
	for key, value := range base {
		if !proto.Equal(s.base[key], value) {
			txn.Put(key, proto.CloneOf(value))
		}
	}
	s.base = base
	if e, ok := event.(*podmanager.AddPod); ok {
		err = s.serve(txn, e.Pod)
	}
	_, ofNode := event.(*nodesync.NodeUpdate)
	return ofNode || off != s.off, err
}

// serveAt assigns service addresses to the local pods with these addresses.
func (s *segments) serveAt(txn controller.UpdateOperations, addrs []netip.Addr) error {
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

// SegmentsOff returns why useSRv6ForServices has no effect at present, or "".
func (p *Proxy) SegmentsOff() string {
	if p.segments == nil || !p.Translates() {
		return ""
	}
	return p.segments.off
}
