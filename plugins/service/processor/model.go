package processor

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/plugins/service/reserved"
)

// ID names a service.
type ID struct{ Namespace, Name string }

// String returns "<namespace>/<name>".
func (id ID) String() string { return id.Namespace + "/" + id.Name }

// Compare orders by namespace, then name.
func (id ID) Compare(o ID) int {
	return cmp.Or(cmp.Compare(id.Namespace, o.Namespace), cmp.Compare(id.Name, o.Name))
}

// Protocol is "TCP", "UDP" or "SCTP".
type Protocol string

// Protocols of services.
const (
	TCP  Protocol = "TCP"
	UDP  Protocol = "UDP"
	SCTP Protocol = "SCTP"
)

// Node has the properties of the agent's node that matter for services.
type Node struct {
	Name string
	// Zone is the label topology.kubernetes.io/zone; "" if there is none.
	Zone string
	// PodSubnets contain the addresses of its pods, of both IP versions.
	PodSubnets []netip.Prefix
	// Addresses are its own; NodePorts are the ones among them on which node ports are open.
	Addresses, NodePorts []netip.Addr
	// Host are addresses of the host that the vswitch leads all packets for there, and PodNetworks those of all pods of the
	// cluster: external IPs and those of load balancers that are among them are left out, and cluster IPs in PodNetworks.
	Host        []netip.Addr
	PodNetworks []netip.Prefix
	// ByHost are addresses of the host that it redirects connections to services from, and Entrances those of the vswitch where they come in.
	ByHost, Entrances []netip.Addr
	// Reserved has the addresses and ports that nodes need themselves.
	Reserved *reserved.Table

	again *again
}

// Equal reports whether two nodes are the same.
func (n Node) Equal(o Node) bool {
	return n.Name == o.Name && n.Zone == o.Zone && slices.Equal(n.PodSubnets, o.PodSubnets) &&
		slices.Equal(n.Addresses, o.Addresses) && slices.Equal(n.NodePorts, o.NodePorts) && slices.Equal(n.Host, o.Host) && slices.Equal(n.PodNetworks, o.PodNetworks) &&
		slices.Equal(n.ByHost, o.ByHost) && slices.Equal(n.Entrances, o.Entrances) && n.Reserved.Equal(o.Reserved)
}

// Service is what this node does for one IP version of a Kubernetes service.
type Service struct {
	ID ID
	// Affinity is how many seconds a client stays with its endpoint; 0: none.
	Affinity uint32
	// Frontends are in the order of their addresses, ports and protocols, each once.
	Frontends []Frontend
}

// Kind is the kind of a frontend's address.
type Kind string

// Kinds of frontends, in the order of their precedence: an address that is several of
// them is the first.
const (
	ClusterIP    Kind = "ClusterIP"
	LoadBalancer Kind = "LoadBalancer"
	ExternalIP   Kind = "ExternalIP"
	NodePort     Kind = "NodePort"
	// HostPort is a port of the node that a pod requests; services have none.
	HostPort Kind = "HostPort"
	// Entrance is where what clients send to external IPs and those of load balancers comes in that the host redirects: with the number of the node
	// port, or if there is none, of the port itself.
	Entrance Kind = "Entrance"
)

var precedence = map[Kind]int{ClusterIP: 0, LoadBalancer: 1, ExternalIP: 2, NodePort: 3, HostPort: 4, Entrance: 5}

// Frontend is what clients connect to.
type Frontend struct {
	Kind     Kind
	Addr     netip.AddrPort
	Protocol Protocol
	// Port is the name of the service's port; may be empty. ServicePort is its number, which is that of Addr but for
	// node ports; 0 if there is no service.
	Port        string
	ServicePort uint16
	// Inside are the endpoints for pods of this node and its own processes, Outside
	// those for everybody else. Sorted by address and port.
	Inside, Outside []Endpoint
	// Node are the endpoints for the node's own processes, if they are others than Inside.
	Node []Endpoint
	// Drop: packets of clients outside are dropped, not refused, while Outside is empty.
	Drop bool
	// KeepSource: endpoints see the addresses of clients outside. They always see those of pods inside.
	KeepSource bool
	// ByHost: the vswitch does not have the address, which the host redirects to an Entrance.
	ByHost bool
	// Sources are the prefixes of the clients that may connect, sorted; packets of others are dropped. If
	// Restricted is set without any Sources, nobody may connect.
	Sources    []netip.Prefix
	Restricted bool
}

// Endpoint is a destination of connections.
type Endpoint struct {
	Addr netip.AddrPort
	// Local: it is on this node.
	Local bool
	// Interface of the pod that has the address, if another one than eth0 is to be reached (Redirect).
	Interface string
	// Eth0 is the pod's address there then, from which it opens connections.
	Eth0 netip.Addr
}

// CompareFrontends orders by address and port, then protocol, kind and name of the port.
func CompareFrontends(a, b Frontend) int {
	return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(precedence[a.Kind], precedence[b.Kind]), cmp.Compare(a.Port, b.Port))
}
