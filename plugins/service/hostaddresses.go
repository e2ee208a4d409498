package service

import (
	"net/netip"
	"slices"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/plugins/service/processor"
	"google.golang.org/protobuf/proto"
)

// Packets to addresses of the host's own network cards do not pass a vswitch with its own stack.
// The host's kernel redirects node ports to the interconnect, where the vswitch translates them,
// and host ports to their pods:
//
//	client ──> InternalIP:30080 ──kernel of the host──> 172.30.1.1:30080 ──VPP──> endpoint
//	           InternalIP:8080                          10.1.1.2:80      ──VPP──> pod
//	                                     └─ masqueraded as 172.30.1.3, so that replies return this way
//
// If the host shares a card with the vswitch, its own processes use the same path for the shared
// addresses. They, and clients of the host's other cards, reach node ports at 172.30.1.2 instead,
// which the host does not own then.
//
// Node ports without an endpoint for external clients stay with the host, which refuses them unless
// a process listens.

// interconnect is the path of redirected packets to the vswitch.
type interconnect struct {
	to      netip.Addr // address of the vswitch
	clients netip.Addr // source of redirected packets
}

// The zero value means none.
func (s *Service) interconnect(ipv6 bool) (i interconnect) {
	own := s.self.nodes.GetAllNodes()[s.self.name]
	if !s.ownStack() || own == nil {
		return interconnect{}
	}
	plan := s.self.addresses.Plan()
	for _, family := range plan.Families() {
		if !family.Subnets.VPPHost.IsValid() {
			continue
		}
		to, inLinux, err := family.HostInterconnect(own.ID)
		if err != nil || to.Addr().Is6() != ipv6 {
			continue
		}
		clients, err := family.HostClients(own.ID)
		if err != nil || !clients.IsValid() {
			continue
		}
		if s.config.Resolved().Stolen != nil { // VPP takes packets from one of its addresses to the host for spoofed (ip4_local_check_src)
			to = inLinux
		}
		return interconnect{to.Addr(), clients}
	}
	return interconnect{}
}

type hostEntrance struct {
	interconnect
	addresses []netip.Addr
}

// The zero value means that the host does not redirect node ports.
func (s *Service) hostEntrance(ipv6 bool) hostEntrance {
	if translator, _ := s.hostDetector.last(); translator != "" { // the other proxy owns the addresses
		return hostEntrance{}
	}
	e := hostEntrance{interconnect: s.interconnect(ipv6), addresses: ofVersion(s.proxy.Settings.OpenOn(s.hostAddresses()), ipv6)}
	if !e.to.IsValid() || len(e.addresses) == 0 {
		return hostEntrance{}
	}
	return e
}

func (s *Service) redirectedTo(f processor.Frontend) []netip.Addr {
	if e := s.hostEntrance(f.Addr.Addr().Is6()); f.Kind == processor.NodePort && f.Addr.Addr() == e.to {
		return e.addresses
	}
	return nil
}

func ofVersion(addresses []netip.Addr, ipv6 bool) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addresses), func(a netip.Addr) bool { return a.Is6() != ipv6 })
}

// hostAddresses returns the node's addresses that the vswitch lacks or shares with the host.
// Packets of the host's processes to them do not reach the vswitch.
func (s *Service) hostAddresses() []netip.Addr {
	if s.config.Resolved().Stolen != nil {
		return s.self.ownAddresses()
	}
	open := s.openAddresses()
	return slices.DeleteFunc(s.self.ownAddresses(), func(a netip.Addr) bool { return slices.Contains(open, a) })
}

// listeningAddresses returns the host's addresses for node ports.
func (s *Service) listeningAddresses() []netip.Addr {
	if s.ownStack() {
		return s.proxy.Settings.OpenOn(s.hostAddresses())
	}
	return s.proxy.Settings.OpenOn(s.self.ownAddresses())
}

// nodePortAddresses returns the addresses at which the vswitch translates node ports.
func (s *Service) nodePortAddresses() []netip.Addr {
	list := s.proxy.Settings.OpenOn(s.openAddresses())
	for _, ipv6 := range []bool{false, true} {
		if e := s.hostEntrance(ipv6); e.to.IsValid() {
			list = append(list, e.to)
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

func hostRedirectKey(id processor.ID) string {
	return models.Key(&contiv_nat.HostRedirect{Label: id.String()})
}

var redirectProtocols = map[processor.Protocol]contiv_nat.DNat66_Protocol{
	processor.TCP: contiv_nat.DNat66_TCP, processor.UDP: contiv_nat.DNat66_UDP, processor.SCTP: contiv_nat.DNat66_SCTP,
}

func (i interconnect) redirectTo(at netip.AddrPort, protocol processor.Protocol, to netip.AddrPort) *contiv_nat.HostRedirect_Frontend {
	f := &contiv_nat.HostRedirect_Frontend{
		Address: at.Addr().String(), Port: uint32(at.Port()), Protocol: redirectProtocols[protocol],
		ToAddress: to.Addr().String(), SourceAddress: i.clients.String(),
	}
	if to.Port() != at.Port() {
		f.ToPort = uint32(to.Port())
	}
	return f
}

// externalEntrance is hostEntrance for external and load balancer IPs.
func (s *Service) externalEntrance(ipv6 bool) interconnect {
	if translator, _ := s.hostDetector.last(); translator != "" {
		return interconnect{}
	}
	return s.interconnect(ipv6)
}

// byHost reports whether the host redirects an external or load balancer IP. With a single, shared
// card, packets to addresses that the host does not own pass the vswitch anyway.
func (s *Service) byHost(addr netip.Addr) bool {
	return s.externalEntrance(addr.Is6()).to.IsValid() && (s.hasCards(addr.Is6()) || slices.Contains(s.hostAddresses(), addr))
}

func (s *Service) hasCards(ipv6 bool) bool {
	return s.config.Resolved().Stolen == nil || len(ofVersion(s.network.GetHostIPs(), ipv6)) > 0
}

func (s *Service) redirectHost(svc *processor.Service, ipv6 bool, values map[string]proto.Message) {
	key := hostRedirectKey(svc.ID)
	redirect, found := values[key].(*contiv_nat.HostRedirect)
	if !found {
		redirect = &contiv_nat.HostRedirect{Label: svc.ID.String()}
	}
	ports := s.hostEntrance(ipv6)
	for _, f := range svc.Frontends {
		if ipv6 && f.Protocol == processor.SCTP {
			continue
		}
		switch f.Kind {
		case processor.NodePort:
			if f.Addr.Addr() != ports.to || len(f.Outside) == 0 {
				continue
			}
			for _, a := range ports.addresses {
				redirect.Frontends = append(redirect.Frontends, ports.redirectTo(netip.AddrPortFrom(a, f.Addr.Port()), f.Protocol, f.Addr))
			}
		case processor.ExternalIP, processor.LoadBalancer:
			if f.Restricted || !s.byHost(f.Addr.Addr()) { // the vswitch sees all clients with one address
				continue
			}
			i := s.externalEntrance(ipv6)
			if to, open := entranceOf(svc, f, i.to); open {
				redirect.Frontends = append(redirect.Frontends, i.redirectTo(f.Addr, f.Protocol, to))
			}
		}
	}
	if len(redirect.GetFrontends()) > 0 {
		values[key] = redirect
	}
}

// entranceOf returns the entrance of a frontend. open is set if that has an endpoint for outside
// clients.
func entranceOf(svc *processor.Service, f processor.Frontend, at netip.Addr) (to netip.AddrPort, open bool) {
	for _, o := range svc.Frontends {
		if o.Addr.Addr() == at && o.Protocol == f.Protocol && o.Port == f.Port && (o.Kind == processor.NodePort || o.Kind == processor.Entrance) {
			return o.Addr, len(o.Outside) > 0
		}
	}
	return netip.AddrPort{}, false
}
