package service

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/api/contiv/pod"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/plugins/contivconf"
	"github.com/contiv/contiv/plugins/ipnet"
	"github.com/contiv/contiv/plugins/nodesync"
	"github.com/contiv/contiv/plugins/podmanager"
	"github.com/contiv/contiv/plugins/service/config"
	"github.com/contiv/contiv/plugins/service/health"
	"github.com/contiv/contiv/plugins/service/processor"
	"google.golang.org/protobuf/proto"
)

// anyVRF stands for all VRFs in an address pool.
const anyVRF = 0xFFFFFFFF

// Config provides the plugin's part of the configuration.
type Config interface {
	Resolved() contivconf.Resolved
	Routing() contivconf.RoutingConfig
	NatExternalTraffic() bool
	// NatExternalTrafficIPv6 is true only if NatExternalTraffic is.
	NatExternalTrafficIPv6() bool
}

// Network provides the interfaces of this node.
type Network interface {
	// GetNodeIPOf returns the zero Prefix while the node has no address of the IP version.
	GetNodeIPOf(ipv6 bool) netip.Prefix
	GetMainInterface() string
	// GetVxlanBVIIfName returns "" without an overlay.
	GetVxlanBVIIfName() string
	// GetHostInterconnectIfName returns "" if the vswitch shares the host's network stack.
	GetHostInterconnectIfName() string
	// GetHostIPs returns the host's addresses that a vswitch with its own stack lacks.
	GetHostIPs() []netip.Addr
	// PodInterfaces maps the interfaces of local pods to the pods.
	PodInterfaces() map[string]podmanager.PodID
}

// Capabilities of the vswitch that affect the configuration.
type Capabilities struct {
	// HostStackShared: the vswitch is the host's network stack. Its routes lead out of the cluster,
	// and it does not translate packets that it sends itself.
	HostStackShared bool
	IPv6SourceNAT   bool
	// ClientScopes: mappings can be limited to inside or outside clients, or to source ranges.
	ClientScopes      bool
	ResetsConnections bool
	// SegmentRouting: segments can carry services.
	SegmentRouting bool
}

// Service is the service plugin.
type Service struct {
	caps Capabilities

	config   Config
	settings config.Config // service.conf
	network  Network
	log      *slog.Logger

	self       self
	needs      Needs
	hostPorts  *HostPorts                    // nil without host ports
	lostPorts  map[podmanager.PodID]string   // errors of closed host ports
	remotePods map[podmanager.PodID]*pod.Pod // pods of any node with host ports
	sourceNAT  bool
	// leavesByMain: traffic to addresses of other nodes is translated, too. Index 0 is IPv4, 1 is
	// IPv6.
	leavesByMain [2]bool

	// Service proxy. proxy is nil without it.
	proxy    *Proxy
	services *processor.Processor
	rendered map[string]proto.Message // last requested values by key
	zone     string                   // of this node
	// appliedLimits maps limits of the vswitch to services and their affected addresses; "" is all.
	appliedLimits map[string]map[processor.ID]string
	// sourceRestricted contains frontends with source ranges if mappings apply to all clients.
	sourceRestricted map[processor.ID][]processor.Frontend
	wrongRedirects   map[string]bool
	// directByService contains the local endpoints that see external clients, directEndpoints former ones, too,
	// and answered the last requested values for their replies.
	directByService  map[processor.ID][]directEndpoint
	directEndpoints  map[directEndpoint]bool
	answered         map[string]proto.Message
	conflictingProxy string // trace of another service proxy, or ""
	detector         proxyDetector
	findKubeProxy    func() (string, error) // looks for kube-proxy if service.conf leaves services to it
	findHostProxy    func() (string, error) // looks for a proxy of the host beside the vswitch; nil if Proxy.Others does
	hostDetector     proxyDetector          // results of findHostProxy
	tracking         tracking
	segments         *segments // nil without segment routing
	health           *health.Server
	healthz          *health.Node
	metrics          *metrics
	mu               sync.Mutex // guards services, appliedLimits, leavesByMain and lostPorts against concurrent reports
}

// Roles are optional tasks of the vswitch. A nil role is disabled.
type Roles struct {
	Proxy     *Proxy
	HostPorts *HostPorts
	// Segments requires Proxy.
	Segments *Segments
	// Needs lists reservations of the node.
	Needs Needs
}

// New returns the plugin, or an error if the vswitch does not support the settings of the proxy.
func New(caps Capabilities, config Config, network Network, roles Roles, log *slog.Logger) (*Service, error) {
	s := &Service{caps: caps, config: config, network: network, log: log, needs: roles.Needs, directEndpoints: map[directEndpoint]bool{}, lostPorts: map[podmanager.PodID]string{}, remotePods: map[podmanager.PodID]*pod.Pod{}}
	if roles.Proxy != nil {
		s.settings = roles.Proxy.Settings
		if err := s.translateServices(*roles.Proxy, roles.Segments); err != nil {
			return nil, err
		}
	}
	if h := roles.HostPorts; h != nil {
		s.hostPorts, s.self = h, self{h.NodeName, h.Nodes, h.Addresses}
	}
	return s, nil
}

func (*Service) String() string { return "service" }

// HandlesEvent accepts resyncs, and changes that affect the translation.
func (s *Service) HandlesEvent(event controller.Event) bool {
	return event.Method() != controller.Update || s.proxies(event) || s.forPod(event) || s.changesNode(event) || s.changesHost(event) || s.changesAnswers(event) || s.segments.wants(event)
}

// Resync configures the translation of services, host ports, and traffic that leaves the cluster.
func (s *Service) Resync(ctx context.Context, _ controller.Event, state controller.KubeState, _ int, txn controller.ResyncOperations) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.translateSources(ctx, txn)
	if s.proxy != nil {
		s.resyncServices(ctx, state, txn)
		if err := s.resyncSegments(txn); err != nil {
			return err
		}
	}
	s.resyncHostPorts(ctx, txn)
	s.resyncAnswers(txn)
	return nil
}

func (s *Service) translateSources(ctx context.Context, txn controller.ResyncOperations) {
	s.sourceNAT, s.leavesByMain = false, [2]bool{}
	if !s.config.NatExternalTraffic() {
		return
	}
	if s.config.NatExternalTrafficIPv6() {
		s.translateIPv6(ctx, txn)
	}
	iface, ip := s.defaultInterface(ctx, false)
	if iface == "" {
		return
	}
	global := s.globalNAT()
	nic := &vpp_nat.Nat44Interface{Name: iface, NatOutside: true, OutputFeature: true}
	pool := &vpp_nat.Nat44AddressPool{FirstIp: ip.String(), VrfId: anyVRF}
	s.sourceNAT, s.leavesByMain[0] = true, iface == s.network.GetMainInterface()
	txn.Put(models.Key(global), global)
	txn.Put(models.Key(nic), nic)
	txn.Put(models.Key(pool), pool)
	if !s.caps.HostStackShared && s.network.GetVxlanBVIIfName() != "" && iface == s.network.GetMainInterface() {
		overlay := s.overlayIdentities(ip)
		txn.Put(models.Key(overlay), overlay)
	}
}

// globalNAT returns the value that all IPv4 NAT depends on. Timeouts are not set if the vswitch
// shares the host's stack.
func (s *Service) globalNAT() *vpp_nat.Nat44Global {
	global := &vpp_nat.Nat44Global{Forwarding: true}
	if !s.caps.HostStackShared {
		global.TcpSessionTimeout, global.OtherSessionTimeout = s.settings.TCPNATSessionTimeout, s.settings.OtherNATSessionTimeout
	}
	return global
}

const (
	identitiesLabel = "DNAT-identities"
	vxlanPort       = 4789
)

// overlayIdentities exempts overlay packets from translation, because each flow of pods would
// become a session. It also exempts packets of the host from the node's address, and from other
// cards' addresses if the host's card is stolen: NAT missed the start of these connections, which
// go to node ports that the host refuses or are older than the theft.
func (s *Service) overlayIdentities(ip netip.Addr) *vpp_nat.DNat44 {
	routing := s.config.Routing()
	value := &vpp_nat.DNat44{Label: identitiesLabel, IdMappings: []*vpp_nat.DNat44_IdentityMapping{
		{IpAddress: ip.String(), Protocol: vpp_nat.DNat44_UDP, Port: vxlanPort, VrfId: routing.MainVRFID}, // received
		{IpAddress: ip.String(), Protocol: vpp_nat.DNat44_UDP, VrfId: routing.PodVRFID},                   // sent, from any port
		{IpAddress: ip.String(), Protocol: vpp_nat.DNat44_UDP, VrfId: routing.MainVRFID},                  // by the host, of any protocol
	}}
	if s.config.Resolved().Stolen != nil {
		for _, own := range ofVersion(s.network.GetHostIPs(), false) {
			value.IdMappings = append(value.IdMappings, &vpp_nat.DNat44_IdentityMapping{IpAddress: own.String(), Protocol: vpp_nat.DNat44_UDP, VrfId: routing.MainVRFID})
		}
	}
	return value
}

func (s *Service) translateIPv6(ctx context.Context, txn controller.ResyncOperations) {
	if !s.caps.IPv6SourceNAT {
		controller.Logger(ctx, s.log).Warn("natExternalTrafficIPv6 has no effect: this vswitch does not translate IPv6 addresses")
		return
	}
	if iface, ip := s.defaultInterface(ctx, true); iface != "" {
		s.leavesByMain[1] = iface == s.network.GetMainInterface()
		source := &contiv_nat.SourceNAT66{Interface: iface, Address: ip.String()}
		txn.Put(models.Key(source), source)
	}
}

// defaultInterface returns the interface on the network of the configured gateway, and its address
// of the IP version. Without such a gateway, it is the main interface if DHCP or the host provides
// one. It returns "" if nothing should be translated, as on a node without network card.
func (s *Service) defaultInterface(ctx context.Context, ipv6 bool) (string, netip.Addr) {
	resolved := s.config.Resolved()
	main, ip := s.network.GetMainInterface(), s.network.GetNodeIPOf(ipv6)
	if !ip.IsValid() && s.network.GetNodeIPOf(!ipv6).IsValid() {
		return "", netip.Addr{}
	}
	gateway := resolved.Gateway(ipv6)
	provided := s.caps.HostStackShared || resolved.Main.UseDHCP && !ipv6
	if resolved.Main.Name == "" || gateway.IsValid() && !ip.Contains(gateway) || !gateway.IsValid() && !provided {
		main, ip = "", netip.Prefix{}
		for _, other := range resolved.Other {
			for _, p := range other.Addresses {
				if gateway.IsValid() && p.Contains(gateway) && main == "" {
					main, ip = other.Name, p
				}
			}
		}
	}
	switch {
	case main == "" || !ip.IsValid():
		controller.Logger(ctx, s.log).Info("No interface leads to the default gateway: pods cannot reach the outside", "gateway", gateway)
		return "", netip.Addr{}
	case s.network.GetVxlanBVIIfName() == "" && main == s.network.GetMainInterface():
		controller.Logger(ctx, s.log).Info("natExternalTraffic has no effect: without overlay, traffic between pods leaves through the main interface too")
		return "", netip.Addr{}
	}
	return main, ip.Addr()
}

// Update handles changes to services, their endpoints, this node and its host ports.
func (s *Service) Update(ctx context.Context, event controller.Event, txn controller.UpdateOperations) (what string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changesHost(event) {
		s.translateSources(ctx, txn)
	}
	if s.proxies(event) || s.segments.wants(event) {
		if what, err = s.updateServices(ctx, event, txn); err != nil {
			return what, err
		}
	}
	if s.forPod(event) {
		what, err = s.updatePod(ctx, event, txn)
	} else if s.changesNode(event) {
		s.refreshHostPorts(ctx, txn)
	}
	if _, reads := event.(*podmanager.CheckPod); err == nil && !reads {
		s.updateAnswers(event, txn)
	}
	return what, err
}

func (s *Service) changesNode(event controller.Event) bool {
	update, ok := event.(*nodesync.NodeUpdate)
	return ok && s.hostPorts != nil && update.NodeName == s.self.name
}

func (s *Service) changesHost(event controller.Event) bool {
	_, ok := event.(*ipnet.HostAddressesChange)
	return ok && s.ownStack() && s.config.Resolved().Stolen != nil
}

// Revert forgets the host ports of a pod that was not added. The controller restores the values.
func (s *Service) Revert(_ context.Context, event controller.Event) error {
	add, ok := event.(*podmanager.AddPod)
	if !ok || s.hostPorts == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.podOf(add.Pod, add.ContainerID) == nil {
		return nil
	}
	return s.updatePodPorts(add.Pod, discarded{})
}

// discarded is a transaction that is never committed.
type discarded struct{}

func (discarded) Put(string, proto.Message) {}

func (discarded) Get(string) proto.Message { return nil }

func (discarded) Delete(string) {}
