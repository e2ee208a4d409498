// Package reserved contains the table of addresses and ports that the nodes need themselves.
//
//	agent, etcd, API server, tunnels ──> entries ─┐
//	sockets of this node and of others ───────────┼─> Table ──> frontends of services: refused
//	addresses of nodes ───────────────────────────┘         ──> host ports: the pod is refused
//	                                                        ──> endpoints of services: refused at tunnels
//
// Authors of services may use any external IP and port, even of a node. A translation of a tunnel,
// of etcd or of the API server would disconnect nodes permanently.
package reserved

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/plugins/nodesync"
)

// Entry is a port that nodes need.
type Entry struct {
	// Protocol is "TCP", "UDP" or "SCTP".
	Protocol string
	Port     uint16
	// An invalid Addr stands for all addresses of all nodes.
	Addr netip.Addr
	// Owner describes the user of the port, such as "the tunnels between nodes (VXLAN)".
	Owner string
	// Service may use the port, "<namespace>/<name>", or "".
	Service string
	// Endpoints also keeps clients of services from endpoints at the port.
	Endpoints bool
}

// Node is another node of the cluster, with the ports that its machine uses.
type Node struct {
	Name      string
	Addresses []netip.Addr
	InUse     []nodesync.Socket
}

// Addresses are the inputs of a table from the cluster.
type Addresses struct {
	// Nodes contains the addresses of all nodes, Own the addresses of local sockets.
	Nodes, Own []netip.Addr
	// Others contains the other nodes that publish the ports that they use.
	Others []Node
	// Networks contains addresses that Contiv assigns to nodes, Services the cluster IPs.
	Networks, Services []netip.Prefix
}

type port struct {
	protocol string
	number   uint16
}

// Table is immutable. A nil Table reserves nothing.
type Table struct {
	addresses Addresses
	entries   []Entry
	sockets   []nodesync.Socket

	byPort   map[port][]Entry
	inUse    map[port][]netip.Addr
	others   map[netip.Addr]*Node
	nodes    map[netip.Addr]struct{}
	ofThis   map[netip.Addr]struct{}
	services []netip.Prefix
}

// New returns a table.
func New(addresses Addresses, entries []Entry, sockets []nodesync.Socket) *Table {
	sorted := func(list []netip.Addr) []netip.Addr {
		list = slices.Clone(list)
		slices.SortFunc(list, netip.Addr.Compare)
		return slices.Compact(list)
	}
	addresses.Nodes, addresses.Own = sorted(addresses.Nodes), sorted(addresses.Own)
	addresses.Others = slices.Clone(addresses.Others)
	slices.SortFunc(addresses.Others, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	t := &Table{addresses: addresses, entries: slices.Clone(entries), sockets: slices.Clone(sockets), services: addresses.Services,
		byPort: map[port][]Entry{}, inUse: map[port][]netip.Addr{}, others: map[netip.Addr]*Node{}, nodes: map[netip.Addr]struct{}{}, ofThis: map[netip.Addr]struct{}{}}
	slices.SortFunc(t.entries, Entry.compare)
	t.entries = slices.Compact(t.entries)
	slices.SortFunc(t.sockets, nodesync.Socket.Compare)
	t.sockets = slices.Compact(t.sockets)
	for _, e := range t.entries {
		key := port{e.Protocol, e.Port}
		t.byPort[key] = append(t.byPort[key], e)
	}
	for _, s := range t.sockets {
		key := port{s.Protocol, s.Port}
		t.inUse[key] = append(t.inUse[key], s.Addr)
	}
	for _, a := range addresses.Nodes {
		t.nodes[a] = struct{}{}
	}
	for _, a := range addresses.Own {
		t.ofThis[a] = struct{}{}
	}
	for i := range t.addresses.Others {
		for _, a := range t.addresses.Others[i].Addresses {
			t.others[a] = &t.addresses.Others[i]
		}
	}
	return t
}

func (e Entry) compare(o Entry) int {
	return cmp.Or(cmp.Compare(e.Port, o.Port), cmp.Compare(e.Protocol, o.Protocol), e.Addr.Compare(o.Addr), cmp.Compare(e.Owner, o.Owner), cmp.Compare(e.Service, o.Service))
}

func (n Node) equal(o Node) bool {
	return n.Name == o.Name && slices.Equal(n.Addresses, o.Addresses) && slices.Equal(n.InUse, o.InUse)
}

// Equal reports whether two tables reserve the same.
func (t *Table) Equal(o *Table) bool {
	if t == nil || o == nil {
		return t == o
	}
	a, b := t.addresses, o.addresses
	return slices.Equal(a.Nodes, b.Nodes) && slices.Equal(a.Own, b.Own) && slices.Equal(a.Networks, b.Networks) && slices.Equal(a.Services, b.Services) &&
		slices.EqualFunc(a.Others, b.Others, Node.equal) &&
		slices.Equal(t.entries, o.entries) && slices.Equal(t.sockets, o.sockets)
}

// OfNode reports whether an address belongs to a node, including addresses assigned by Contiv.
func (t *Table) OfNode(addr netip.Addr) bool {
	if t == nil {
		return false
	}
	if _, is := t.nodes[addr]; is {
		return true
	}
	_, is := t.ofThis[addr]
	return is || slices.ContainsFunc(t.addresses.Networks, func(p netip.Prefix) bool { return p.Contains(addr) })
}

func (t *Table) matches(e Entry, addr netip.Addr) bool {
	if e.Addr.IsValid() {
		return e.Addr == addr
	}
	return t.OfNode(addr)
}

// Frontend returns the entry that keeps a service from an address and port. For a host port,
// service is empty.
func (t *Table) Frontend(at netip.AddrPort, protocol, service string) (Entry, bool) {
	if t == nil {
		return Entry{}, false
	}
	for _, e := range t.byPort[port{protocol, at.Port()}] {
		if t.matches(e, at.Addr()) && (service == "" || e.Service != service) {
			return e, true
		}
	}
	return Entry{}, false
}

// ClusterIP is Frontend for a cluster IP. The service network is never reserved: the API server
// assigns each address once, so that etcd's belongs to its service.
func (t *Table) ClusterIP(at netip.AddrPort, protocol, service string) (Entry, bool) {
	if t == nil || slices.ContainsFunc(t.services, func(p netip.Prefix) bool { return p.Contains(at.Addr()) }) {
		return Entry{}, false
	}
	return t.Frontend(at, protocol, service)
}

// InUseBy returns the name of another node whose machine uses an address and port.
func (t *Table) InUseBy(at netip.AddrPort, protocol string) (node string, is bool) {
	if t == nil || t.others[at.Addr()] == nil {
		return "", false
	}
	if _, own := t.ofThis[at.Addr()]; own {
		return "", false
	}
	other := t.others[at.Addr()]
	first, _ := slices.BinarySearchFunc(other.InUse, at.Port(), func(s nodesync.Socket, port uint16) int { return cmp.Compare(s.Port, port) })
	for _, s := range other.InUse[first:] {
		if s.Port != at.Port() {
			break
		}
		if s.Protocol == protocol && (s.Addr == at.Addr() || s.Addr.IsUnspecified() && s.Addr.Is6() == at.Addr().Is6()) {
			return other.Name, true
		}
	}
	return "", false
}

// OfOther reports whether two addresses belong to the same other node.
func (t *Table) OfOther(a, b netip.Addr) bool {
	return t != nil && t.others[a] != nil && t.others[a] == t.others[b]
}

// InUse reports whether a local socket receives at an address and port.
func (t *Table) InUse(at netip.AddrPort, protocol string) bool {
	if t == nil {
		return false
	}
	_, own := t.ofThis[at.Addr()]
	return slices.ContainsFunc(t.inUse[port{protocol, at.Port()}], func(a netip.Addr) bool {
		return a == at.Addr() || own && a.IsUnspecified() && a.Is6() == at.Addr().Is6()
	})
}

// Endpoint returns the entry that keeps clients of services from an endpoint.
func (t *Table) Endpoint(at netip.AddrPort, protocol string) (Entry, bool) {
	if t == nil {
		return Entry{}, false
	}
	for _, e := range t.byPort[port{protocol, at.Port()}] {
		if e.Endpoints && t.matches(e, at.Addr()) {
			return e, true
		}
	}
	return Entry{}, false
}

// Tunnel reports whether endpoints with a port are reserved, at any address.
func (t *Table) Tunnel(number uint16, protocol string) bool {
	return t != nil && slices.ContainsFunc(t.byPort[port{protocol, number}], func(e Entry) bool { return e.Endpoints })
}

func (e Entry) String() string {
	return fmt.Sprintf("port %d/%s is reserved for %s", e.Port, e.Protocol, e.Owner)
}
