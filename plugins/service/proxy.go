package service

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/api/contiv/endpointslice"
	"github.com/contiv/contiv/api/contiv/node"
	k8s "github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/dbresources"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/plugins/nodesync"
	"github.com/contiv/contiv/plugins/podmanager"
	"github.com/contiv/contiv/plugins/service/config"
	"github.com/contiv/contiv/plugins/service/health"
	"github.com/contiv/contiv/plugins/service/processor"
	"github.com/contiv/contiv/plugins/service/renderer/nat"
	"google.golang.org/protobuf/proto"
)

// Proxy makes the vswitch translate Kubernetes services.
type Proxy struct {
	Settings  config.Config
	NodeName  string
	Nodes     Nodes
	Addresses Addresses
	// Others returns the trace of another service proxy on this node, or "". Two proxies would
	// conflict.
	Others func() (string, error)
	// Track applies the conntrack settings of service.conf to the host. It may be called
	// repeatedly, and may be nil.
	Track func() error
	// Healthy reports to load balancers whether this node translates the known services.
	Healthy func() bool
	// Connected returns an error while changes in etcd are not followed. May be nil.
	Connected func() error
	// Value reports the state of a value, with its last transaction if full is set. May be nil.
	Value func(key string, full bool) ValueReport
}

const labelZone = "topology.kubernetes.io/zone"

// translateServices makes the vswitch translate services according to Settings.
//
// Packets of pods bypass the host's stack if the vswitch has its own. With services: vswitch,
// kube-proxy may then run for the host's processes. By default, services are left to kube-proxy
// there, too.
func (s *Service) translateServices(p Proxy, of *Segments) error {
	if of != nil && !s.caps.SegmentRouting {
		return errNoSegments
	}
	if p.Settings.Services == config.KubeProxy {
		s.findKubeProxy = p.Others
		if of != nil {
			s.log.Warn("useSRv6ForServices has no effect: service.conf leaves services to kube-proxy")
		}
		return nil
	}
	if !s.caps.HostStackShared {
		if main := s.config.Routing().MainVRFID; main != 0 {
			if p.Settings.Services == config.Auto {
				s.log.Warn("VPP translates services only in VRF 0: remove mainVRFID from contiv.conf", "mainVRFID", main)
				return nil
			}
			return fmt.Errorf("service.conf: VPP translates services in VRF 0 only, but mainVRFID is %d: leave mainVRFID out, or set services: %s", main, config.KubeProxy)
		}
		if p.Settings.Services == config.VSwitch {
			s.findHostProxy = p.Others
			p.Others = func() (string, error) { return "", nil }
		}
	}
	if p.Settings.ResetRemovedEndpoints && !s.caps.ResetsConnections {
		s.log.Warn("resetRemovedEndpoints in service.conf has no effect: the Linux kernel of this node ends no connections (CONFIG_INET_DIAG_DESTROY)")
	}
	s.proxy, s.services, s.rendered = &p, processor.New(), map[string]proto.Message{}
	s.appliedLimits, s.sourceRestricted = map[string]map[processor.ID]string{}, map[processor.ID][]processor.Frontend{}
	s.directByService = map[processor.ID][]directEndpoint{}
	s.segments = newSegments(of)
	s.self = self{p.NodeName, p.Nodes, p.Addresses}
	s.health, s.metrics = health.New(p.Healthy, s.log), newMetrics(p.NodeName)
	if s.caps.HostStackShared { // otherwise, the host tracks no service connections
		s.tracking.apply, s.tracking.log = p.Track, s.log
	}
	s.healthz = health.NewNode(p.Settings.HealthzBindAddress, p.Healthy, s.log)
	return nil
}

func (s *Service) translates() bool { return s.proxy != nil && s.conflictingProxy == "" }

func (s *Service) proxies(event controller.Event) bool {
	if s.proxy == nil {
		return false
	}
	switch e := event.(type) {
	case *controller.KubeStateChange:
		return e.Resource == dbresources.Service || e.Resource == dbresources.EndpointSlice || e.Key == dbresources.NodeKey(s.proxy.NodeName) || s.changesPodPorts(e)
	case *nodesync.NodeUpdate:
		return e.NodeName == s.proxy.NodeName || redirectsPods(e) || changesNeeds(e)
	}
	return s.changesHost(event)
}

func (s *Service) resyncServices(ctx context.Context, state controller.KubeState, txn controller.ResyncOperations) {
	clear(s.rendered)
	clear(s.appliedLimits)
	clear(s.sourceRestricted)
	clear(s.directByService)
	s.services.Reset()
	s.zone = ""
	s.conflictingProxy = s.detector.scan(s.proxy.Others)
	s.tracking.set(s.conflictingProxy == "")
	if s.findHostProxy != nil {
		s.hostDetector.scan(s.findHostProxy)
	}
	s.noteServices(ctx, state)
	if s.segments != nil {
		s.segments.reset()
		s.segments.notePolicies(state)
		s.judgeSegments()
	}
	if s.conflictingProxy != "" {
		s.logConflict(ctx)
		s.health.Set(nil, nil) // the other proxy answers health checks
		s.healthz.Serve(false)
		return
	}
	defer s.answerLoadBalancers()
	for key, value := range s.shared() {
		s.put(txn, key, value)
	}
	if global := s.globalNAT(); s.self.loopback(false).IsValid() && txn.Get(models.Key(global)) == nil {
		txn.Put(models.Key(global), global)
	}
	for _, id := range s.services.IDs() {
		for key, value := range s.render(id) {
			s.put(txn, key, value)
		}
	}
	for key, value := range s.sourceRanges() {
		s.put(txn, key, value)
	}
}

// noteServices records the services, which Explain needs even beside another proxy.
func (s *Service) noteServices(ctx context.Context, state controller.KubeState) {
	if n, ok := state[dbresources.Node][dbresources.NodeKey(s.proxy.NodeName)].(*node.Node); ok {
		s.zone = n.GetLabels()[labelZone]
	}
	for _, value := range state[dbresources.Service] {
		if svc, ok := value.(*k8s.Service); ok {
			s.services.SetService(svc)
		}
	}
	for _, value := range state[dbresources.EndpointSlice] {
		if slice, ok := value.(*endpointslice.EndpointSlice); ok {
			s.services.SetSlice(nil, slice)
		}
	}
	s.services.SetNode(s.node(ctx))
	s.notePodPorts(state)
	s.services.SetPodPorts(s.podPorts(podmanager.PodID{}))
	s.services.SetRedirects(s.redirects(ctx))
}

func (s *Service) put(txn controller.ResyncOperations, key string, value proto.Message) {
	s.rendered[key] = proto.CloneOf(value)
	txn.Put(key, value)
}

func (s *Service) render(id processor.ID) map[string]proto.Message {
	values := map[string]proto.Message{}
	options := s.natOptions()
	options.LocalWeight, options.ResetRemoved = uint32(s.proxy.Settings.LocalEndpointWeight), s.proxy.Settings.ResetRemovedEndpoints && s.caps.ResetsConnections
	s.noteReserved(id)
	for _, ipv6 := range []bool{false, true} {
		svc := s.services.Service(id, ipv6)
		if svc == nil {
			continue
		}
		s.redirectHost(svc, ipv6, values)
		s.noteRestricted(id, svc)
		svc.Frontends = slices.DeleteFunc(svc.Frontends, func(f processor.Frontend) bool { return f.ByHost })
		if svc = s.carry(svc, values); len(svc.Frontends) == 0 {
			continue
		}
		s.noteLimits(id, svc)
		s.noteRanges(svc)
		s.noteAnswers(svc, ipv6)
		values[nat.Key(id, ipv6)] = nat.Render(svc, ipv6, options)
	}
	return values
}

func (s *Service) updateServices(ctx context.Context, event controller.Event, txn controller.UpdateOperations) (string, error) {
	var changed []processor.ID
	var ofNode bool
	if s.proxies(event) {
		changed, ofNode = s.noteChange(ctx, event)
	}
	if s.conflictingProxy != "" {
		return "", nil
	}
	if s.segments.wants(event) {
		more, err := s.updateSegments(ctx, event, txn)
		if err != nil {
			return "", err
		}
		changed = append(changed, more...)
		slices.SortFunc(changed, processor.ID.Compare)
		changed = slices.Compact(changed)
	}
	defer s.answerLoadBalancers()
	if ofNode {
		for key, value := range s.shared() {
			if !proto.Equal(s.rendered[key], value) {
				s.put(txn, key, value)
			}
		}
	}
	what, nodePorts, conflicts, err := s.updateAll(changed, txn)
	if err != nil {
		return "", err
	}
	if conflicts { // most addresses of services take precedence over a pod's host port
		s.refreshHostPorts(ctx, txn)
	}
	return describe(what, nodePorts && ofNode), nil
}

// updateAll describes the changes. nodePorts reports whether all changed services have node ports,
// conflicts whether one has or had a host port of a pod.
func (s *Service) updateAll(ids []processor.ID, txn controller.UpdateOperations) (what []string, nodePorts, conflicts bool, err error) {
	var servers []netip.Addr
	nodePorts = true
	for _, id := range ids {
		text, pods, touched := s.update(id, txn)
		if text != "" {
			what = append(what, text)
			nodePorts = nodePorts && s.services.HasNodePorts(id)
		}
		servers = append(servers, pods...)
		conflicts = conflicts || slices.ContainsFunc(touched, s.hasHostPort)
	}
	s.updateSourceRanges(txn)
	return what, nodePorts, conflicts, s.serveAgain(txn, servers)
}

// nodePorts is set if an event of the node changed only services with node ports.
func describe(what []string, nodePorts bool) string {
	const named = 5
	switch {
	case len(what) > 1 && nodePorts:
		return "update nodeport services"
	case len(what) > named:
		return fmt.Sprintf("update %d services", len(what))
	}
	return strings.Join(what, ", ")
}

func (s *Service) answerLoadBalancers() {
	s.healthz.Serve(true)
	var only []netip.Addr
	if len(s.proxy.Settings.NodePortAddresses) > 0 {
		if only = s.listeningAddresses(); len(only) == 0 {
			s.health.Set(nil, nil)
			return
		}
	}
	s.health.Set(s.services.HealthChecks(), only)
}

// Close stops the health check servers.
func (s *Service) Close() {
	if s.proxy != nil {
		s.health.Close()
		s.healthz.Close()
	}
}

func (s *Service) serviceChanged(e *controller.KubeStateChange) []processor.ID {
	if next, ok := e.NewValue.(*k8s.Service); ok && next != nil {
		return s.services.SetService(next)
	}
	prev, _ := e.PrevValue.(*k8s.Service)
	return s.services.RemoveService(prev.GetNamespace(), prev.GetName())
}

// noteChange returns the changed services, and whether the event concerns this node.
func (s *Service) noteChange(ctx context.Context, event controller.Event) (changed []processor.ID, ofNode bool) {
	if e, ok := event.(*controller.KubeStateChange); ok {
		switch e.Resource {
		case dbresources.Service:
			return s.serviceChanged(e), false
		case dbresources.EndpointSlice:
			prev, _ := e.PrevValue.(*endpointslice.EndpointSlice)
			next, _ := e.NewValue.(*endpointslice.EndpointSlice)
			changed := s.services.SetSlice(prev, next)
			if slices.Contains(changed, apiServer) {
				changed = append(changed, s.services.SetNode(s.node(ctx))...)
				slices.SortFunc(changed, processor.ID.Compare)
				changed = slices.Compact(changed)
			}
			return changed, false
		case dbresources.Pod:
			s.podPortsChanged(e)
			return s.services.SetPodPorts(s.podPorts(podmanager.PodID{})), false
		}
		n, _ := e.NewValue.(*node.Node)
		s.zone = n.GetLabels()[labelZone]
	} else if redirectsPods(event) {
		changed = s.services.SetRedirects(s.redirects(ctx))
	}
	if e, ok := event.(*nodesync.NodeUpdate); ok && e.NodeName != s.proxy.NodeName {
		if changesNeeds(e) {
			changed = append(changed, s.services.SetNode(s.node(ctx))...)
			changed = append(changed, s.services.SetPodPorts(s.podPorts(podmanager.PodID{}))...)
			slices.SortFunc(changed, processor.ID.Compare)
			changed = slices.Compact(changed)
		}
		return changed, false
	}
	if s.changesHost(event) {
		changed = s.services.IDs()
	}
	changed = append(changed, s.services.SetNode(s.node(ctx))...)
	changed = append(changed, s.services.SetPodPorts(s.podPorts(podmanager.PodID{}))...)
	slices.SortFunc(changed, processor.ID.Compare)
	return slices.Compact(changed), true
}

// update returns a description, the addresses of local pods that served the service before or
// after, and the changed values, old and new.
func (s *Service) update(id processor.ID, txn controller.UpdateOperations) (what string, servers []netip.Addr, touched []proto.Message) {
	s.forgetLimits(id)
	delete(s.sourceRestricted, id)
	delete(s.directByService, id)
	keys, servers := s.segments.dropCarriage(id)
	keys = append(keys, nat.Key(id, false), nat.Key(id, true), hostRedirectKey(id))
	values := s.render(id)
	servers = append(servers, s.segments.servers(id)...)
	was, is, same := false, len(values) > 0, true
	for _, key := range keys {
		before, known := s.rendered[key]
		was = was || known
		if known && values[key] == nil {
			same = false
			touched = append(touched, before)
			delete(s.rendered, key)
			txn.Delete(key)
		}
	}
	for key, value := range values {
		if before := s.rendered[key]; !proto.Equal(before, value) {
			same = false
			touched = append(touched, value)
			if before != nil {
				touched = append(touched, before)
			}
			s.put(txn, key, value)
		}
	}
	switch {
	case same:
	case !was:
		what = fmt.Sprintf("add service '%s'", id)
	case !is:
		what = fmt.Sprintf("delete service '%s'", id)
	default:
		what = fmt.Sprintf("update service '%s'", id)
	}
	return what, servers, touched
}

func (s *Service) node(ctx context.Context) processor.Node {
	n := processor.Node{Name: s.proxy.NodeName, Zone: s.zone, PodSubnets: s.self.podSubnets(), Addresses: s.self.ownAddresses()}
	s.reserve(&n)
	n.Reserved = s.table(ctx)
	if n.NodePorts = s.nodePortAddresses(); len(n.NodePorts) == 0 && len(n.Addresses) > 0 && s.translates() {
		controller.Logger(ctx, s.log).Warn("Node ports are open on no address: nodePortAddresses has none of this node's", "addresses", n.Addresses)
	}
	return n
}

// shared returns the values that all services share.
func (s *Service) shared() map[string]proto.Message {
	network := s.serviceNetwork()
	plan := s.proxy.Addresses.Plan()
	for _, family := range plan.Families() {
		if p := family.Subnets.Service; p.IsValid() {
			network.ServiceSubnets = append(network.ServiceSubnets, p.String())
		}
	}
	values := map[string]proto.Message{}
	if len(network.GetInside())+len(network.GetServiceSubnets()) > 0 {
		values[models.Key(network)] = network
	}
	if loopback := s.self.loopback(false); loopback.IsValid() {
		pool := hairpinPool(loopback)
		values[models.Key(pool)] = pool
	}
	maps.Copy(values, s.answerRoutes())
	return values
}
