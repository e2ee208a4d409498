package processor

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/plugins/service/reserved"
)

// ID identifies a service.
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

// Node contains the properties of this node that affect services.
type Node struct {
	Name string
	// Zone is the label topology.kubernetes.io/zone, or "".
	Zone       string
	PodSubnets []netip.Prefix
	// NodePorts is the subset of Addresses with open node ports.
	Addresses, NodePorts []netip.Addr
	// The vswitch forwards all packets for Host to the host. PodNetworks are the networks of all
	// pods. External and load balancer IPs in either, and cluster IPs in PodNetworks, are ignored.
	Host        []netip.Addr
	PodNetworks []netip.Prefix
	// ByHost contains addresses that the host redirects to the vswitch at Entrances.
	ByHost, Entrances []netip.Addr
	// Reserved contains the addresses and ports that nodes need themselves.
	Reserved *reserved.Table

	requested *requestedPorts
	podPorts  map[claim]PodPort
}

// Equal reports whether two nodes are the same.
func (n Node) Equal(o Node) bool {
	return n.Name == o.Name && n.Zone == o.Zone && slices.Equal(n.PodSubnets, o.PodSubnets) &&
		slices.Equal(n.Addresses, o.Addresses) && slices.Equal(n.NodePorts, o.NodePorts) && slices.Equal(n.Host, o.Host) && slices.Equal(n.PodNetworks, o.PodNetworks) &&
		slices.Equal(n.ByHost, o.ByHost) && slices.Equal(n.Entrances, o.Entrances) && n.Reserved.Equal(o.Reserved)
}

// Service is the translation of one IP version of a Kubernetes service on this node.
type Service struct {
	ID ID
	// Affinity is the duration of session affinity in seconds, or 0.
	Affinity uint32
	// Frontends are sorted and unique.
	Frontends []Frontend
}

// WithoutHost returns the service without addresses that the host owns.
func (s *Service) WithoutHost() *Service {
	rest := *s
	rest.Frontends = slices.DeleteFunc(slices.Clone(s.Frontends), func(f Frontend) bool { return f.ByHost })
	return &rest
}

// Restricted returns the frontends with allowed sources.
func (s *Service) Restricted() (list []Frontend) {
	for _, f := range s.Frontends {
		if f.Restricted {
			list = append(list, f)
		}
	}
	return list
}

// Kind is the kind of a frontend's address.
type Kind string

// Kinds of frontends. The first applicable kind of an address counts.
const (
	ClusterIP    Kind = "ClusterIP"
	LoadBalancer Kind = "LoadBalancer"
	ExternalIP   Kind = "ExternalIP"
	NodePort     Kind = "NodePort"
	// HostPort is a port of the node that a pod requests. Services do not use it.
	HostPort Kind = "HostPort"
	// Entrance is the vswitch address to which the host redirects external and load balancer IPs.
	// Its port is the node port, or else the service port.
	Entrance Kind = "Entrance"
)

var precedence = map[Kind]int{ClusterIP: 0, LoadBalancer: 1, ExternalIP: 2, NodePort: 3, HostPort: 4, Entrance: 5}

// Frontend is an address, protocol and port that clients connect to.
type Frontend struct {
	Kind     Kind
	Addr     netip.AddrPort
	Protocol Protocol
	// Port and ServicePort are the name and number of the service port. The name may be empty. The
	// number differs from Addr for node ports, and is 0 without a service.
	Port        string
	ServicePort uint16
	// Inside applies to local pods and processes, Outside to all other clients. Both are sorted.
	Inside, Outside []Endpoint
	// Node applies to the node's own processes if they differ from Inside.
	Node []Endpoint
	// Drop: while Outside is empty, packets of outside clients are dropped instead of refused.
	Drop bool
	// KeepSource: endpoints see the addresses of outside clients. Inside clients are never
	// masqueraded.
	KeepSource bool
	// ByHost: the host owns the address and redirects it to an Entrance.
	ByHost bool
	// Sources contains the sorted prefixes of allowed clients if Restricted is set. All other
	// packets are dropped.
	Sources    []netip.Prefix
	Restricted bool
}

// Endpoint is a destination of connections.
type Endpoint struct {
	Addr  netip.AddrPort
	Local bool
	// Interface owns the address if services do not use eth0 (Redirect).
	Interface string
	// Eth0 is the pod's address at eth0 then, from which it opens connections.
	Eth0 netip.Addr
}

// CompareFrontends orders by address and port, then protocol, kind and name of the port.
func CompareFrontends(a, b Frontend) int {
	return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(precedence[a.Kind], precedence[b.Kind]), cmp.Compare(a.Port, b.Port))
}
