package service

import (
	"net/netip"
	"slices"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/plugins/service/processor"
	"google.golang.org/protobuf/proto"
)

// Ports at addresses of the host's own network cards, whose packets do not pass a vswitch with a stack of its own. The
// host's kernel sends them there: those of node ports to the end of the interconnect, at which the vswitch translates them, too, and
// those of host ports to their pods:
//
//	client ──> InternalIP:30080 ──kernel of the host──> 172.30.1.1:30080 ──VPP──> endpoint
//	           InternalIP:8080                          10.1.1.2:80      ──VPP──> pod
//	                                     └─ seen as 172.30.1.3, so that answers come back this way
//
// Where the host shares a card with the vswitch, its own processes need that for the addresses that both have. They, and clients by further cards of the
// host, come to node ports at 172.30.1.2, which the host does not have there.
//
// A node port without an endpoint for clients outside is left to the host, which refuses it unless something listens there.

// interconnect is how what the host redirects comes to the vswitch.
type interconnect struct {
	to      netip.Addr // address of the vswitch
	clients netip.Addr // address that it sees
}

// interconnect returns that of an IP version, the zero value if there is none.
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
		if s.config.Resolved().Stolen != nil { // VPP takes what it sends from addresses of its own to the host for forged (ip4_local_check_src)
			to = inLinux
		}
		return interconnect{to.Addr(), clients}
	}
	return interconnect{}
}

// hostEntrance is where the host redirects node ports.
type hostEntrance struct {
	interconnect
	addresses []netip.Addr // of the host, on which node ports are open
}

// hostEntrance returns the zero value if there is none.
func (s *Service) hostEntrance(ipv6 bool) hostEntrance {
	if translator, _ := s.onHost.last(); translator != "" { // it has these addresses
		return hostEntrance{}
	}
	e := hostEntrance{interconnect: s.interconnect(ipv6), addresses: ofVersion(s.proxy.Settings.OpenOn(s.hostAddresses()), ipv6)}
	if !e.to.IsValid() || len(e.addresses) == 0 {
		return hostEntrance{}
	}
	return e
}

// redirectedTo returns the addresses of the host whose node ports it redirects to a frontend, none if it is no entrance.
func (s *Service) redirectedTo(f processor.Frontend) []netip.Addr {
	if e := s.hostEntrance(f.Addr.Addr().Is6()); f.Kind == processor.NodePort && f.Addr.Addr() == e.to {
		return e.addresses
	}
	return nil
}

func ofVersion(addresses []netip.Addr, ipv6 bool) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addresses), func(a netip.Addr) bool { return a.Is6() != ipv6 })
}

// hostAddresses returns the addresses of the node that a vswitch with a stack of its own lacks, or that it shares with the host: packets of the host's own
// processes to addresses of the host do not leave it.
func (s *Service) hostAddresses() []netip.Addr {
	if s.config.Resolved().Stolen != nil {
		return s.self.ownAddresses()
	}
	open := s.openAddresses()
	return slices.DeleteFunc(s.self.ownAddresses(), func(a netip.Addr) bool { return slices.Contains(open, a) })
}

// listeningAddresses returns the addresses for node ports that the host has.
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

// hostRedirectKey is that of what the host sends to the vswitch for a service.
func hostRedirectKey(id processor.ID) string {
	return models.Key(&contiv_nat.HostRedirect{Label: id.String()})
}

var redirectProtocols = map[processor.Protocol]contiv_nat.DNat66_Protocol{
	processor.TCP: contiv_nat.DNat66_TCP, processor.UDP: contiv_nat.DNat66_UDP, processor.SCTP: contiv_nat.DNat66_SCTP,
}

// redirectTo is a frontend of the host whose connections are sent elsewhere.
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

// externalEntrance is where the host redirects connections to external IPs and those of load balancers, the zero value if it does not.
func (s *Service) externalEntrance(ipv6 bool) interconnect {
	if translator, _ := s.onHost.last(); translator != "" {
		return interconnect{}
	}
	return s.interconnect(ipv6)
}

// byHost reports whether the host redirects connections to an external IP or one of a load balancer. Where it shares its only card with the vswitch, those
// to addresses that it does not have pass the vswitch anyway.
func (s *Service) byHost(addr netip.Addr) bool {
	return s.externalEntrance(addr.Is6()).to.IsValid() && (s.hasCards(addr.Is6()) || slices.Contains(s.hostAddresses(), addr))
}

// hasCards reports whether clients of an IP version may come by network cards of the host.
func (s *Service) hasCards(ipv6 bool) bool {
	return s.config.Resolved().Stolen == nil || len(ofVersion(s.network.GetHostIPs(), ipv6)) > 0
}

// redirectHost adds to the values of a service what the host sends to the vswitch for an IP version of it.
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
			if f.Restricted || !s.byHost(f.Addr.Addr()) { // the vswitch would see one client, whom ranges cannot be about
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

// entranceOf returns where connections to a frontend come in at the address of an entrance, if there is an endpoint for them.
func entranceOf(svc *processor.Service, f processor.Frontend, at netip.Addr) (to netip.AddrPort, open bool) {
	for _, o := range svc.Frontends {
		if o.Addr.Addr() == at && o.Protocol == f.Protocol && o.Port == f.Port && (o.Kind == processor.NodePort || o.Kind == processor.Entrance) {
			return o.Addr, len(o.Outside) > 0
		}
	}
	return netip.AddrPort{}, false
}
