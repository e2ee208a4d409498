package localnode

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"github.com/contiv/contiv/internal/plugins/service/reserved"
)

// Needs describes addresses and ports that services and host ports do not get, because the node
// needs them. All functions may be nil.
type Needs struct {
	// Listeners are the addresses at which the agent serves.
	Listeners []Listener
	// Etcd returns the addresses of etcd for the agent. Loopback addresses stand for all nodes.
	Etcd func() []netip.AddrPort
	// APIServer returns addresses of the API server in addition to those in the EndpointSlice
	// default/kubernetes.
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

// APIServer names the API server's service and the EndpointSlice that it writes for itself.
var APIServer = processor.ID{Namespace: "default", Name: "kubernetes"}

const (
	kubeletPort = 10250
	tcp         = string(processor.TCP)
)

// Reservations lists the addresses and ports that the nodes need themselves.
type Reservations struct {
	node     *Node
	needs    Needs
	services *processor.Processor // nil if the vswitch translates no services
	log      *slog.Logger
}

// NewReservations returns the reservations of a node. Services contains the endpoints of the API
// server, and may be nil.
func NewReservations(node *Node, needs Needs, services *processor.Processor, log *slog.Logger) *Reservations {
	return &Reservations{node: node, needs: needs, services: services, log: log}
}

// ReservationsChangedBy reports whether an event changes addresses or ports of a node.
func ReservationsChangedBy(event controller.Event) bool {
	update, ok := event.(*nodesync.NodeUpdate)
	if !ok {
		return false
	}
	addresses := func(n *nodesync.Node) []netip.Addr {
		if n == nil {
			return nil
		}
		return AddressesOf(n)
	}
	inUse := func(n *nodesync.Node) []nodesync.Socket {
		if n == nil {
			return nil
		}
		return n.Host.InUse
	}
	return !slices.Equal(addresses(update.PrevState), addresses(update.NewState)) || !slices.Equal(inUse(update.PrevState), inUse(update.NewState))
}

// Table returns the current reservations.
func (r *Reservations) Table(ctx context.Context) *reserved.Table {
	if r.node.Nodes == nil {
		return nil
	}
	var sockets []nodesync.Socket
	if r.needs.Sockets != nil {
		var err error
		if sockets, err = r.needs.Sockets(); err != nil {
			controller.Logger(ctx, r.log).Warn("Services may get ports of this node at which its processes receive: its sockets cannot be listed", "error", err)
		}
	}
	return reserved.New(r.addresses(), r.entries(), sockets)
}

func (r *Reservations) addresses() (addresses reserved.Addresses) {
	for _, n := range r.node.Nodes.GetAllNodes() {
		all := AddressesOf(n)
		addresses.Nodes = append(addresses.Nodes, all...)
		if n.Name != r.node.Name && len(n.Host.InUse) > 0 {
			addresses.Others = append(addresses.Others, reserved.Node{Name: n.Name, Addresses: all, InUse: n.Host.InUse})
		}
	}
	plan, self := r.node.Addresses.Plan(), r.node.self()
	if addresses.Own = r.node.AllAddresses(); r.node.HasOwnStack() {
		addresses.Own = r.node.HostAddresses()
	}
	for _, family := range plan.Families() {
		for _, p := range []netip.Prefix{family.Subnets.VXLAN, family.Subnets.VPPHost} {
			if p.IsValid() {
				addresses.Networks = append(addresses.Networks, p)
			}
		}
		addresses.Services = append(addresses.Services, family.Subnets.Services...)
		if self != nil && family.Subnets.VXLAN.IsValid() && !r.node.HasOwnStack() {
			if ip, err := family.VXLANIP(self.ID); err == nil {
				addresses.Own = append(addresses.Own, ip.Addr())
			}
		}
	}
	if r.needs.Addresses != nil {
		addresses.Own = append(addresses.Own, r.needs.Addresses()...)
	}
	return addresses
}

func (r *Reservations) entries() (list []reserved.Entry) {
	if r.node.Config.Routing().NodeToNodeTransport == contivconf.VXLANTransport {
		list = append(list, reserved.Entry{Protocol: string(processor.UDP), Port: VXLANPort, Owner: "the tunnels between nodes (VXLAN)", Endpoints: true})
	}
	list = append(list, reserved.Entry{Protocol: tcp, Port: kubeletPort, Owner: "kubelet"})
	for _, l := range r.needs.Listeners {
		if number, ok := portOf(l.Address); ok {
			list = append(list, reserved.Entry{Protocol: tcp, Port: number, Owner: l.Owner})
		}
	}
	if number, ok := portOf(r.node.Settings.HealthzBindAddress); ok {
		list = append(list, reserved.Entry{Protocol: tcp, Port: number, Owner: "the agent (health of the service proxy)"})
	}
	if r.needs.Etcd != nil {
		for _, at := range r.needs.Etcd() {
			list = append(list, r.entryAt(at, "etcd", r.node.Settings.EtcdService))
		}
	}
	var servers []netip.AddrPort
	if r.services != nil {
		servers = r.services.Published(APIServer)
	}
	if r.needs.APIServer != nil {
		servers = append(servers, r.needs.APIServer()...)
	}
	for _, at := range servers {
		list = append(list, r.entryAt(at, "the API server", APIServer.String()))
	}
	return list
}

// For an address of a node, entryAt reserves the port on all nodes, because each uses its own
// address.
func (r *Reservations) entryAt(at netip.AddrPort, owner, service string) reserved.Entry {
	e := reserved.Entry{Protocol: tcp, Port: at.Port(), Owner: owner, Service: service}
	ofNode := at.Addr().IsLoopback() || at.Addr().IsUnspecified()
	for _, n := range r.node.Nodes.GetAllNodes() {
		ofNode = ofNode || slices.Contains(AddressesOf(n), at.Addr())
	}
	if !ofNode {
		e.Addr = at.Addr()
	}
	return e
}

func portOf(address string) (uint16, bool) {
	_, text, err := net.SplitHostPort(address)
	if err != nil || strings.Contains(address, "/") {
		return 0, false
	}
	number, err := strconv.ParseUint(text, 10, 16)
	return uint16(number), err == nil && number > 0
}
