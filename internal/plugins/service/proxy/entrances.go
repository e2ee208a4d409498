package proxy

import (
	"net/netip"
	"slices"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/internal/plugins/service/localnode"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// Entrances redirects clients of the host's addresses to the vswitch.
//
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
type Entrances struct {
	node         *localnode.Node
	otherProxies *OtherProxies
}

// Entrance is the address of the vswitch to which the host redirects node ports. The zero value
// means that it redirects none.
type Entrance struct {
	localnode.Interconnect
	Addresses []netip.Addr // of the host
}

// NodePorts returns the entrance for node ports of an IP version.
func (e *Entrances) NodePorts(ipv6 bool) Entrance {
	if e.otherProxies.OnHost() != "" { // the other proxy owns the addresses
		return Entrance{}
	}
	at := Entrance{Interconnect: e.node.Interconnect(ipv6), Addresses: localnode.OfVersion(e.node.Settings.OpenOn(e.node.HostAddresses()), ipv6)}
	if !at.To.IsValid() || len(at.Addresses) == 0 {
		return Entrance{}
	}
	return at
}

// external is NodePorts for external and load balancer IPs.
func (e *Entrances) external(ipv6 bool) localnode.Interconnect {
	if e.otherProxies.OnHost() != "" {
		return localnode.Interconnect{}
	}
	return e.node.Interconnect(ipv6)
}

// HostAddresses returns the addresses that the host redirects to a frontend.
func (e *Entrances) HostAddresses(f processor.Frontend) []netip.Addr {
	if at := e.NodePorts(f.Addr.Addr().Is6()); f.Kind == processor.NodePort && f.Addr.Addr() == at.To {
		return at.Addresses
	}
	return nil
}

// NodePortAddresses returns the addresses at which the vswitch translates node ports.
func (e *Entrances) NodePortAddresses() []netip.Addr {
	list := e.node.Settings.OpenOn(e.node.OpenAddresses())
	for _, ipv6 := range []bool{false, true} {
		if at := e.NodePorts(ipv6); at.To.IsValid() {
			list = append(list, at.To)
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

// ofHost reports whether the host redirects an external or load balancer IP. With a single, shared
// card, packets to addresses that the host does not own pass the vswitch anyway.
func (e *Entrances) ofHost(addr netip.Addr) bool {
	return e.external(addr.Is6()).To.IsValid() && (e.node.HasCards(addr.Is6()) || slices.Contains(e.node.HostAddresses(), addr))
}

// hidesClients reports whether the host redirects a frontend with source ranges. Redirected packets
// have lost the client's address.
func (e *Entrances) hidesClients(f processor.Frontend) bool {
	return f.Restricted && e.node.HasCards(f.Addr.Addr().Is6()) && e.ofHost(f.Addr.Addr())
}

// redirect adds the redirects of one IP version of a service to its values.
func (e *Entrances) redirect(svc *processor.Service, ipv6 bool, values map[string]proto.Message) {
	value := &contiv_nat.HostRedirect{Label: svc.ID.String()}
	key := models.Key(value)
	if other, found := values[key].(*contiv_nat.HostRedirect); found {
		value = other
	}
	ports := e.NodePorts(ipv6)
	for _, f := range svc.Frontends {
		if ipv6 && f.Protocol == processor.SCTP {
			continue
		}
		switch f.Kind {
		case processor.NodePort:
			if f.Addr.Addr() != ports.To || len(f.Outside) == 0 {
				continue
			}
			for _, a := range ports.Addresses {
				value.Frontends = append(value.Frontends, ports.Redirect(netip.AddrPortFrom(a, f.Addr.Port()), f.Protocol, f.Addr))
			}
		case processor.ExternalIP, processor.LoadBalancer:
			if f.Restricted || !e.ofHost(f.Addr.Addr()) { // the vswitch sees all clients with one address
				continue
			}
			external := e.external(ipv6)
			if to, open := entranceOf(svc, f, external.To); open {
				value.Frontends = append(value.Frontends, external.Redirect(f.Addr, f.Protocol, to))
			}
		}
	}
	if len(value.GetFrontends()) > 0 {
		values[key] = value
	}
}

// entranceOf returns the entrance of a frontend. Open is set if it has an endpoint for outside
// clients.
func entranceOf(svc *processor.Service, f processor.Frontend, at netip.Addr) (to netip.AddrPort, open bool) {
	for _, o := range svc.Frontends {
		if o.Addr.Addr() == at && o.Protocol == f.Protocol && o.Port == f.Port && (o.Kind == processor.NodePort || o.Kind == processor.Entrance) {
			return o.Addr, len(o.Outside) > 0
		}
	}
	return netip.AddrPort{}, false
}
