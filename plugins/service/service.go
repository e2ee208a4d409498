package service

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
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

// anyVRF, in an address pool, stands for all VRFs.
const anyVRF = 0xFFFFFFFF

// Config is the part of the configuration that the plugin uses.
type Config interface {
	Resolved() contivconf.Resolved
	Routing() contivconf.RoutingConfig
	NatExternalTraffic() bool
	// NatExternalTrafficIPv6 is true only if NatExternalTraffic is.
	NatExternalTrafficIPv6() bool
}

// Network provides the interfaces of this node.
type Network interface {
	// GetNodeIPOf returns the address of an IP version, the zero Prefix while the
	// node has none.
	GetNodeIPOf(ipv6 bool) netip.Prefix
	GetMainInterface() string
	// GetVxlanBVIIfName returns "" without an overlay.
	GetVxlanBVIIfName() string
	// GetHostInterconnectIfName returns "" if the vswitch has the network stack of the host.
	GetHostInterconnectIfName() string
	// GetHostIPs returns the addresses of the host that a vswitch with a network stack of its own lacks.
	GetHostIPs() []netip.Addr
	// PodInterfaces returns the pods of this node by the interfaces that lead to them.
	PodInterfaces() map[string]podmanager.PodID
}

// Capabilities of the vswitch that change what is configured.
type Capabilities struct {
	// HostStackShared: the vswitch is the host's own network stack, whose routes
	// lead out of the cluster, and which does not translate what it sends itself.
	HostStackShared bool
	// IPv6SourceNAT: sources of IPv6 packets can be translated.
	IPv6SourceNAT bool
	// ClientScopes: mappings can be for clients inside or outside only, or for source
	// ranges.
	ClientScopes bool
	// ResetsConnections: connections to removed endpoints can be reset.
	ResetsConnections bool
	// SegmentRouting: services can be carried by segments.
	SegmentRouting bool
}

// Service is the plugin.
type Service struct {
	caps Capabilities

	config   Config
	settings config.Config // service.conf
	network  Network
	log      *slog.Logger

	self      self
	needs     Needs
	hostPorts *HostPorts                  // nil: not served
	lostPorts map[podmanager.PodID]string // why host ports of pods are not open
	sourceNAT bool                        // traffic that leaves the cluster is translated
	// leavesByMain: what leaves for addresses of other nodes is translated, too, by IP version (index 1: IPv6).
	leavesByMain [2]bool

	// For the translation of services; proxy is nil without it.
	proxy    *Proxy
	services *processor.Processor
	rendered map[string]proto.Message // the values requested last, by key
	zone     string                   // of this node
	// limited has the services that the vswitch does not fully support, by what it does instead, with the addresses that this is
	// about; "": all.
	limited map[string]map[processor.ID]string
	// restricted has the frontends with source ranges, where mappings are for all clients.
	restricted map[processor.ID][]processor.Frontend
	// wrongRedirects has what is wrong with what nodes publish of their pods, and was logged.
	wrongRedirects map[string]bool
	// answering has the endpoints of this node that see the addresses of clients outside, answerers those
	// that have been among them, and answered the values requested last for their answers.
	answering map[processor.ID][]answerer
	answerers map[answerer]bool
	answered  map[string]proto.Message
	disabled  string // what else translates services; "": nothing
	others    others
	ask       func() (string, error) // what kube-proxy has, where service.conf leaves services to it
	askHost   func() (string, error) // what translates for the host, beside the vswitch; nil: as Proxy.Others
	onHost    others                 // what askHost answered
	tracking  tracking
	segments  *segments // nil: all services are translated
	health    *health.Server
	healthz   *health.Node
	metrics   *metrics
	mu        sync.Mutex // guards services, limited, leavesByMain and lostPorts against reports, which other goroutines call
}

// Roles are optional tasks of the vswitch; nil: it does not have this one.
type Roles struct {
	Proxy     *Proxy
	HostPorts *HostPorts
	// Segments needs Proxy.
	Segments *Segments
	// Needs is what no service and no pod gets.
	Needs Needs
}

// New returns the plugin, or an error if the vswitch does not support the settings of the proxy.
func New(caps Capabilities, config Config, network Network, roles Roles, log *slog.Logger) (*Service, error) {
	s := &Service{caps: caps, config: config, network: network, log: log, needs: roles.Needs, answerers: map[answerer]bool{}, lostPorts: map[podmanager.PodID]string{}}
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

// HandlesEvent accepts resyncs, and changes to services that the vswitch translates.
func (s *Service) HandlesEvent(event controller.Event) bool {
	return event.Method() != controller.Update || s.proxies(event) || s.forPod(event) || s.changesNode(event) || s.changesHost(event) || s.changesAnswers(event) || s.segments.wants(event)
}

// Resync configures the translation of traffic that leaves the cluster, and of services.
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

// translateSources gives traffic that leaves the cluster an address of the node.
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

// globalNAT is the value that all NAT of IPv4 waits for. Time-outs are those of the vswitch only
// where it does not share them with the host.
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

// overlayIdentities exempt packets of the overlay from translation, since they pass the interface
// where it takes place, and each flow of pods would become a session. They also exempt what the host sends from the
// node's address: NAT has not seen the beginning of these connections. They are to node ports that the host
// refuses, or older than the theft of the host's card. A host whose card is stolen sends from addresses of other cards this way, too.
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

// translateIPv6 configures the translation of traffic that leaves the cluster over IPv6.
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

// defaultInterface returns the interface that leads out of the cluster, with its
// address of the IP version: the one on whose network the configured gateway is. Without such a
// gateway it is the main interface, if DHCP or the host provides one; "" if
// nothing is to be translated, as on a node without network card.
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
		controller.Logger(ctx, s.log).Info("Pods cannot reach what is outside of the cluster: no interface leads to the default gateway", "gateway", gateway)
		return "", netip.Addr{}
	case s.network.GetVxlanBVIIfName() == "" && main == s.network.GetMainInterface():
		controller.Logger(ctx, s.log).Info("natExternalTraffic has no effect: without overlay, traffic between pods leaves through the main interface too")
		return "", netip.Addr{}
	}
	return main, ip.Addr()
}

// Update handles changes to services, their endpoints, this node and the host ports of its pods.
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

// changesNode reports whether the node's addresses for host ports may have changed.
func (s *Service) changesNode(event controller.Event) bool {
	update, ok := event.(*nodesync.NodeUpdate)
	return ok && s.hostPorts != nil && update.NodeName == s.self.name
}

// changesHost reports whether a host that shares a card with the vswitch has other addresses of further cards.
func (s *Service) changesHost(event controller.Event) bool {
	_, ok := event.(*ipnet.HostAddressesChange)
	return ok && s.ownStack() && s.config.Resolved().Stolen != nil
}

// Revert has nothing to undo.
func (*Service) Revert(context.Context, controller.Event) error { return nil }
