package service

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/plugins/contivconf"
	"github.com/contiv/contiv/plugins/nodesync"
	"github.com/contiv/contiv/plugins/podmanager"
	"github.com/contiv/contiv/plugins/service/processor"
	"github.com/contiv/contiv/plugins/service/reserved"
)

// Needs describes addresses and ports that services and host ports do not get, because the node
// needs them. All functions may be nil.
type Needs struct {
	// Listeners are the addresses at which the agent serves.
	Listeners []Listener
	// Etcd returns the addresses of etcd for the agent. Loopback addresses stand for all nodes.
	Etcd func() []netip.AddrPort
	// APIServer returns addresses of the API server in addition to those that the EndpointSlices of
	// default/kubernetes list.
	APIServer func() []netip.AddrPort
	// Sockets returns the sockets that receive from any peer.
	Sockets func() ([]nodesync.Socket, error)
	// Addresses returns the addresses of the host's devices.
	Addresses func() []netip.Addr
}

// Listener is an address at which the agent serves.
type Listener struct {
	// Address is "<address>:<port>" or ":<port>". Unix sockets are ignored.
	Address string
	// Owner names the purpose, such as "the agent (REST)".
	Owner string
}

var apiServer = processor.ID{Namespace: "default", Name: "kubernetes"}

const (
	kubeletPort = 10250
	tcp         = string(processor.TCP)
)

func (s *Service) tunnels() (list []reserved.Entry) {
	if s.config.Routing().NodeToNodeTransport == contivconf.VXLANTransport {
		list = append(list, reserved.Entry{Protocol: string(processor.UDP), Port: vxlanPort, Owner: "the tunnels between nodes (VXLAN)", Endpoints: true})
	}
	return list
}

func (s *Service) table(ctx context.Context) *reserved.Table {
	var addresses reserved.Addresses
	if s.self.nodes == nil {
		return nil
	}
	for _, n := range s.self.nodes.GetAllNodes() {
		of := addressesOf(n)
		addresses.Nodes = append(addresses.Nodes, of...)
		if n.Name != s.self.name && len(n.Host.InUse) > 0 {
			addresses.Others = append(addresses.Others, reserved.Node{Name: n.Name, Addresses: of, InUse: n.Host.InUse})
		}
	}
	plan := s.self.addresses.Plan()
	own := s.self.nodes.GetAllNodes()[s.self.name]
	if addresses.Own = s.self.ownAddresses(); s.ownStack() {
		addresses.Own = s.hostAddresses()
	}
	for _, family := range plan.Families() {
		for _, p := range []netip.Prefix{family.Subnets.VXLAN, family.Subnets.VPPHost} {
			if p.IsValid() {
				addresses.Networks = append(addresses.Networks, p)
			}
		}
		if p := family.Subnets.Service; p.IsValid() {
			addresses.Services = append(addresses.Services, p)
		}
		if own != nil && family.Subnets.VXLAN.IsValid() && !s.ownStack() {
			if ip, err := family.VXLANIP(own.ID); err == nil {
				addresses.Own = append(addresses.Own, ip.Addr())
			}
		}
	}
	if s.needs.Addresses != nil {
		addresses.Own = append(addresses.Own, s.needs.Addresses()...)
	}
	var sockets []nodesync.Socket
	if s.needs.Sockets != nil {
		var err error
		if sockets, err = s.needs.Sockets(); err != nil {
			controller.Logger(ctx, s.log).Warn("Services may get ports of this node at which its processes receive: its sockets cannot be listed", "error", err)
		}
	}
	return reserved.New(addresses, s.entries(), sockets)
}

func (s *Service) entries() []reserved.Entry {
	list := append(s.tunnels(), reserved.Entry{Protocol: tcp, Port: kubeletPort, Owner: "kubelet"})
	for _, l := range s.needs.Listeners {
		if number, ok := portOf(l.Address); ok {
			list = append(list, reserved.Entry{Protocol: tcp, Port: number, Owner: l.Owner})
		}
	}
	if number, ok := portOf(s.settings.HealthzBindAddress); ok {
		list = append(list, reserved.Entry{Protocol: tcp, Port: number, Owner: "the agent (health of the service proxy)"})
	}
	if s.needs.Etcd != nil {
		for _, at := range s.needs.Etcd() {
			list = append(list, s.entryAt(at, "etcd", s.settings.EtcdService))
		}
	}
	var servers []netip.AddrPort
	if s.services != nil {
		servers = s.services.Listed(apiServer)
	}
	if s.needs.APIServer != nil {
		servers = append(servers, s.needs.APIServer()...)
	}
	for _, at := range servers {
		list = append(list, s.entryAt(at, "the API server", apiServer.String()))
	}
	return list
}

// For an address of a node, entryAt reserves the port on all nodes, because each uses its own
// address.
func (s *Service) entryAt(at netip.AddrPort, owner, service string) reserved.Entry {
	e := reserved.Entry{Protocol: tcp, Port: at.Port(), Owner: owner, Service: service}
	ofNode := at.Addr().IsLoopback() || at.Addr().IsUnspecified()
	for _, n := range s.self.nodes.GetAllNodes() {
		ofNode = ofNode || slices.Contains(addressesOf(n), at.Addr())
	}
	if !ofNode {
		e.Addr = at.Addr()
	}
	return e
}

func addressesOf(n *nodesync.Node) []netip.Addr {
	list := slices.Clone(n.MgmtIPs)
	for _, p := range n.VPPIPs {
		list = append(list, p.Addr())
	}
	return append(list, n.Host.Addresses...)
}

func portOf(address string) (uint16, bool) {
	_, text, err := net.SplitHostPort(address)
	if err != nil || strings.Contains(address, "/") {
		return 0, false
	}
	number, err := strconv.ParseUint(text, 10, 16)
	return uint16(number), err == nil && number > 0
}

func changesNeeds(event controller.Event) bool {
	update, ok := event.(*nodesync.NodeUpdate)
	if !ok {
		return false
	}
	addresses := func(n *nodesync.Node) []netip.Addr {
		if n == nil {
			return nil
		}
		return addressesOf(n)
	}
	inUse := func(n *nodesync.Node) []nodesync.Socket {
		if n == nil {
			return nil
		}
		return n.Host.InUse
	}
	return !slices.Equal(addresses(update.PrevState), addresses(update.NewState)) || !slices.Equal(inUse(update.PrevState), inUse(update.NewState))
}

func (s *Service) needsDiffer(ctx context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.translates() && s.services.ReservedAnew(s.table(ctx))
}

func (s *Service) refusals(id processor.ID) (texts []string) {
	for _, r := range s.services.RefusedTo(id) {
		texts = append(texts, s.refusal(r)+": "+s.remedy(r))
	}
	return texts
}

func (s *Service) refusal(r processor.Refusal) string {
	at := fmt.Sprintf("%v/%s", r.Addr, r.Protocol)
	switch {
	case r.Endpoint:
		return fmt.Sprintf("endpoint %s gets no clients, because %v", at, r.Entry)
	case r.Entry.Owner == "":
		return fmt.Sprintf("%s is not translated, because a process of node %s has the port", at, cmp.Or(r.Node, s.proxy.NodeName))
	}
	return fmt.Sprintf("%s is not translated, because %v", at, r.Entry)
}

func (s *Service) remedy(r processor.Refusal) string {
	switch {
	case r.Endpoint:
		return "give the service other endpoints"
	case r.Entry.Service != "" && r.Entry.Service == s.settings.EtcdService:
		return "use another port; if this is the service of etcd itself, set etcdService in service.conf"
	}
	return "use another port, or another address"
}

func (s *Service) refusedServices() []string {
	const most = 3
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.translates() {
		return nil
	}
	var texts []string
	refused := s.services.Refused()
	for _, r := range refused[:min(len(refused), most)] {
		texts = append(texts, fmt.Sprintf("%v: %s", r.ID, s.refusal(r)))
	}
	switch more := len(refused) - most; {
	case len(refused) == 0:
		return nil
	case more > 0:
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return []string{"services request addresses and ports reserved for nodes and do not get them (see `contivctl services NAMESPACE/NAME`): " + strings.Join(texts, "; ")}
}

func (s *Service) refusedAt(c Connection) string {
	at := netip.AddrPortFrom(c.To, c.Port)
	for _, r := range s.services.Refused() {
		if !r.Endpoint && r.Addr == at && r.Protocol == c.Protocol {
			return fmt.Sprintf("service %v asks for it, but %s", r.ID, s.refusal(r))
		}
	}
	return ""
}

// needed returns "" if a pod can have the port. opening means that the port is not open yet, so
// that a process of the node may own it.
func (s *Service) needed(t *reserved.Table, at netip.AddrPort, port podmanager.HostPort, opening bool) string {
	if entry, is := t.Frontend(at, port.Protocol, ""); is {
		return entry.String()
	}
	if opening && t.InUse(at, port.Protocol) {
		return fmt.Sprintf("a process of node %s has it", cmp.Or(s.self.name, "this"))
	}
	return ""
}
