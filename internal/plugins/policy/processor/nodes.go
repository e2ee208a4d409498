package processor

import (
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/internal/kubernetes/kubeaddr"
	"github.com/contiv/contiv/internal/plugins/policy/cache"
	"github.com/contiv/contiv/internal/plugins/policy/configurator"
)

// nodes selects nodes by label. The cache stores them as pods without a namespace.
type nodes struct {
	cache *cache.Cache
	users map[*cache.Selection]int
	// ips contains the addresses in Kubernetes, assigned all others.
	ips, assigned map[string][]netip.Addr
	changed       func(*cache.Selection)
}

func newNodes(changed func(*cache.Selection)) nodes {
	n := nodes{users: map[*cache.Selection]int{}, ips: map[string][]netip.Addr{}, assigned: map[string][]netip.Addr{}, changed: changed}
	n.cache = cache.New(func(s *cache.Selection, _ PodID, _ bool) { changed(s) })
	return n
}

func (n *nodes) acquire(selector cache.Selector) *cache.Selection {
	s := n.cache.Acquire(cache.Scope{}, selector)
	if n.users[s]++; n.users[s] == 1 {
		n.changed(s)
	}
	return s
}

// release reports whether the selection is no longer used.
func (n *nodes) release(s *cache.Selection) bool {
	n.users[s]--
	n.cache.Release(s)
	if n.users[s] > 0 {
		return false
	}
	delete(n.users, s)
	return true
}

func (n *nodes) addressSet(s *cache.Selection) *filter.AddressSet {
	var addrs []netip.Addr
	for id := range s.Members() {
		addrs = append(append(addrs, n.ips[id.Name]...), n.assigned[id.Name]...)
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	set := &filter.AddressSet{Name: configurator.NodesSet(s.Selector()), Description: "all nodes", Addresses: texts(slices.Compact(addrs))}
	if len(s.Selector()) > 0 {
		set.Description = "nodes " + s.Selector().String()
	}
	return set
}

// SetNode adds or changes a node.
func (p *Processor) SetNode(value *node.Node) {
	id := PodID{Name: value.GetName()}
	var ips []netip.Addr
	for _, a := range value.GetAddresses() {
		// Host names do not parse.
		if addr, err := kubeaddr.ParseAddr(a.GetAddress()); err == nil && !addr.IsUnspecified() {
			ips = append(ips, addr)
		}
	}
	changed := !slices.Equal(p.nodes.ips[id.Name], ips)
	p.nodes.ips[id.Name] = ips
	p.nodes.cache.SetPod(id, value.GetLabels())
	p.dirty.own = p.dirty.own || changed && id.Name == p.node
	if changed {
		p.nodes.addressesChanged(id)
	}
}

func (n *nodes) addressesChanged(id PodID) {
	for s := range n.cache.SelectionsOf(id) {
		n.changed(s)
	}
}

// SetAssigned sets a node's addresses that Kubernetes does not know.
func (p *Processor) SetAssigned(node string, addrs []netip.Addr) {
	if slices.Equal(p.nodes.assigned[node], addrs) {
		return
	}
	p.nodes.assigned[node] = addrs
	if len(addrs) == 0 {
		delete(p.nodes.assigned, node)
	}
	p.nodes.addressesChanged(PodID{Name: node})
	p.dirty.own = p.dirty.own || node == p.node
}

// DeleteNode forgets a node.
func (p *Processor) DeleteNode(name string) {
	delete(p.nodes.ips, name)
	p.nodes.cache.DeletePod(PodID{Name: name})
	p.dirty.own = p.dirty.own || name == p.node
}

// SetOwnNetworks sets the networks from which local pods see the node, beyond its addresses in
// Kubernetes. A node and its pods always reach each other: the first stage of each subject allows
// these networks. Without any, the vswitch itself allows the node.
func (p *Processor) SetOwnNetworks(networks []netip.Prefix) {
	p.own, p.dirty.own = networks, true
	for id := range p.local {
		p.dirty.subjects[id] = struct{}{}
	}
}

func (p *Processor) ownList(direction filter.AccessList_Direction) *filter.AccessList {
	networks, addrs := slices.Clone(p.own), p.nodes.ips[p.node]
	if direction == filter.AccessList_EGRESS { // as a source, an assigned address may hide an external client
		addrs = append(slices.Clip(addrs), p.nodes.assigned[p.node]...)
	}
	for _, addr := range addrs {
		networks = append(networks, netip.PrefixFrom(addr, addr.BitLen()))
	}
	r := &filter.AccessList_Rule{Name: "own node"}
	for _, network := range configurator.Disjoint(networks) {
		r.Networks = append(r.Networks, network.String())
	}
	return &filter.AccessList{Name: ownListName(direction), Description: "node " + p.node + " and its pods", Direction: direction, Rules: []*filter.AccessList_Rule{r}}
}

func ownListName(direction filter.AccessList_Direction) string {
	if direction == filter.AccessList_EGRESS {
		return "node/egress"
	}
	return "node/ingress"
}
