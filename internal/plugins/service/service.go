package service

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/service/config"
	"github.com/contiv/contiv/internal/plugins/service/hostports"
	"github.com/contiv/contiv/internal/plugins/service/localnode"
	"github.com/contiv/contiv/internal/plugins/service/podports"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"github.com/contiv/contiv/internal/plugins/service/proxy"
	"github.com/contiv/contiv/internal/plugins/service/replies"
	"github.com/contiv/contiv/internal/plugins/service/sourcenat"
	"github.com/prometheus/client_golang/prometheus"
)

// Types of the parts that New takes.
type (
	Capabilities = localnode.Capabilities
	Needs        = localnode.Needs
	Listener     = localnode.Listener
	Segments     = proxy.Segments
)

// OtherProxiesPeriod is the interval of checks for other service proxies.
const OtherProxiesPeriod = proxy.OtherProxiesPeriod

// Roles are optional tasks of the vswitch. A nil role is disabled.
type Roles struct {
	Proxy     *Proxy
	HostPorts *HostPorts
	// Segments requires Proxy.
	Segments *Segments
	// Needs lists reservations of the node.
	Needs Needs
}

// Proxy makes the vswitch translate Kubernetes services.
type Proxy struct {
	Settings  config.Config
	NodeName  string
	Nodes     localnode.Nodes
	Addresses localnode.Addresses
	// OtherProxy returns the trace of another service proxy on this node, or "". Two proxies would
	// conflict.
	OtherProxy func() (string, error)
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

// HostPorts makes the vswitch translate host ports of local pods, independent of the service proxy.
type HostPorts struct {
	NodeName  string
	Nodes     localnode.Nodes
	Addresses localnode.Addresses
	Pods      podports.Pods
	Verifier  hostports.Verifier
}

// Service is the service plugin. It calls its parts in order.
type Service struct {
	mu sync.Mutex // guards the parts against concurrent reports

	node      *localnode.Node
	sources   *sourcenat.SourceNAT
	proxy     *proxy.Proxy         // nil if services are left to another proxy
	hostPorts *hostports.HostPorts // nil without host ports
	replies   *replies.Replies

	metrics   *metrics // nil without proxy
	explainer explainer
	reporter  reporter
	warnings  warnings
}

// New returns the plugin, or an error if the vswitch does not support the settings of the proxy.
func New(caps Capabilities, config localnode.Config, network localnode.Network, roles Roles, log *slog.Logger) (*Service, error) {
	node := &localnode.Node{Caps: caps, Config: config, Network: network}
	var services *processor.Processor
	if p := roles.Proxy; p != nil {
		node.Settings = p.Settings
		translated, err := proxy.Wanted(node, roles.Segments != nil, log)
		if err != nil {
			return nil, err
		}
		if translated {
			services = processor.New()
			node.Name, node.Nodes, node.Addresses = p.NodeName, p.Nodes, p.Addresses
		}
	}
	var pods podports.Pods
	if h := roles.HostPorts; h != nil {
		pods = h.Pods
		node.Name, node.Nodes, node.Addresses = h.NodeName, h.Nodes, h.Addresses
	}
	ports := podports.New(node, pods)
	reservations := localnode.NewReservations(node, roles.Needs, services, log)

	s := &Service{node: node, sources: sourcenat.New(node, log)}
	if p := roles.Proxy; services != nil {
		s.proxy = proxy.New(node, proxy.Options{
			Services: services, Reservations: reservations, Ports: ports, Segments: roles.Segments,
			OtherProxy: p.OtherProxy, Track: p.Track, Healthy: p.Healthy,
		}, log)
		s.metrics = newMetrics(node.Name, s.proxy)
	}
	if h := roles.HostPorts; h != nil {
		s.hostPorts = hostports.New(node, ports, reservations, s.sources, s.proxy, h.Verifier, log)
	}
	s.replies = replies.New(node, ports, s.hostPorts, s.proxy)
	s.addReaders(roles.Proxy, ports)
	return s, nil
}

// view is the state that explanations and reports read.
type view struct {
	lock        *sync.Mutex // guards the parts
	node        *localnode.Node
	sources     *sourcenat.SourceNAT
	ports       *podports.Ports
	proxy       *proxy.Proxy         // nil if services are left to another proxy
	hostPorts   *hostports.HostPorts // nil without host ports
	translators translators
	value       func(key string, full bool) ValueReport // may be nil
}

func (s *Service) addReaders(p *Proxy, ports *podports.Ports) {
	v := view{lock: &s.mu, node: s.node, sources: s.sources, ports: ports, proxy: s.proxy, hostPorts: s.hostPorts}
	v.translators = translators{proxy: s.proxy, setting: s.node.Settings.Services}
	if p != nil {
		v.value, s.reporter.connected = p.Value, p.Connected
		if p.Settings.Services == config.KubeProxy {
			v.translators.kubeProxy = p.OtherProxy
		}
	}
	s.explainer.view, s.reporter.view, s.warnings.view = v, v, v
}

func (*Service) String() string { return "service" }

// HandlesEvent accepts resyncs, and changes that affect the translation.
func (s *Service) HandlesEvent(event controller.Event) bool {
	return event.Method() != controller.Update || s.node.HostChangedBy(event) || s.proxy.HandlesEvent(event) || s.hostPorts.HandlesEvent(event) || s.replies.HandlesEvent(event)
}

// Resync configures the translation of services, host ports, and traffic that leaves the cluster.
func (s *Service) Resync(ctx context.Context, _ controller.Event, state controller.KubeState, _ int, txn controller.ResyncOperations) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sources.Translate(ctx, txn)
	if err := s.proxy.Resync(ctx, state, txn); err != nil {
		return err
	}
	s.hostPorts.Resync(ctx, txn)
	s.replies.Resync(txn)
	return nil
}

// Update handles changes to services, their endpoints, this node and its host ports.
func (s *Service) Update(ctx context.Context, event controller.Event, txn controller.UpdateOperations) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node.HostChangedBy(event) {
		s.sources.Translate(ctx, txn)
	}
	what, conflicts, err := s.proxy.Update(ctx, event, txn)
	if err != nil {
		return "", err
	}
	if conflicts { // most addresses of services take precedence over a pod's host port
		s.hostPorts.Refresh(ctx, txn)
	}
	if s.hostPorts.HandlesEvent(event) {
		text, err := s.hostPorts.Update(ctx, event, txn)
		if what = cmp.Or(text, what); err != nil {
			return what, err
		}
	}
	if _, reads := event.(*podmanager.CheckPod); !reads {
		s.replies.Update(event, txn)
	}
	return what, nil
}

// Revert forgets the host ports of a pod that was not added. The controller restores the values.
func (s *Service) Revert(_ context.Context, event controller.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hostPorts.Revert(event)
}

// EventDone implements controller.EventObserver.
func (s *Service) EventDone(event controller.Event, record *controller.EventRecord) {
	s.metrics.observe(event, record)
}

// Close stops the health check servers.
func (s *Service) Close() { s.proxy.Close() }

// WatchOtherProxies calls resync when another service proxy appears or disappears, or when reservations
// change, until ctx ends.
func (s *Service) WatchOtherProxies(ctx context.Context, period time.Duration, resync func() error) {
	if s.proxy != nil {
		s.proxy.Watch(ctx, period, &s.mu, resync)
	}
}

// Proxies reports whether the vswitch should translate services without another proxy.
func (s *Service) Proxies() bool { return s.proxy != nil }

// Translator returns the service proxy found by the last resync.
func (s *Service) Translator() Translator { return s.explainer.translators.translator() }

// Explain describes how this node handles a connection to a service or a host port. It returns the
// zero value for all others.
func (s *Service) Explain(c Connection) Explanation { return s.explainer.explain(c) }

// Handler serves URL.
func (s *Service) Handler() http.Handler { return s.reporter.handler() }

// Warnings returns deviations from service.conf, failed health check ports, and pods without host
// ports.
func (s *Service) Warnings() []string { return s.warnings.all() }

// Notes returns limits that cannot be fixed on the node, and whether services are left to
// kube-proxy.
func (s *Service) Notes() []string { return s.warnings.notes() }

// Describe implements prometheus.Collector. It requires a proxy.
func (s *Service) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range s.metrics.all() {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector. It requires a proxy.
func (s *Service) Collect(ch chan<- prometheus.Metric) {
	for _, c := range s.metrics.all() {
		c.Collect(ch)
	}
}
