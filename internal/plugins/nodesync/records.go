package nodesync

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/api/contiv/vppnode"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/models"
)

// records holds the database's records of nodes. They may be inconsistent: a name may have several
// IDs, and an address several nodes. The result only depends on the present records, not on their
// order:
//
//   - A record without a name, or with another ID than its key, is ignored.
//   - Addresses that cannot be a node's are ignored (refuse).
//   - Of several IDs of a name, the lowest with addresses is used.
//   - This node keeps its addresses. Another address belongs to the node that has it in
//     Kubernetes, else to a node that is in Kubernetes, else to the lowest ID.
//     All other nodes lose it.
type records struct {
	vppNodes  map[uint32]*vppnode.VppNode
	kubeNodes map[string]*node.Node
	// hosts holds the parsed part of vppNodes that is long.
	hosts map[uint32]Host
	// mistakes maps the keys of ignored records to the reason.
	mistakes map[string]string
	ofPlan   func(netip.Addr) string
}

func newRecords(ofPlan func(netip.Addr) string) records {
	return records{vppNodes: map[uint32]*vppnode.VppNode{}, kubeNodes: map[string]*node.Node{}, hosts: map[uint32]Host{}, mistakes: map[string]string{}, ofPlan: ofPlan}
}

// idOf returns the ID in a key or, without a key, in the value. It returns 0 without an ID.
func idOf(key string, v *vppnode.VppNode) uint32 {
	key = strings.TrimPrefix(key, models.KSRPrefix)
	if key == "" {
		return v.GetId()
	}
	id, err := strconv.ParseUint(strings.TrimPrefix(key, vppNodePrefix), 10, 32)
	if err != nil || kubestate.VppNodeKey(uint32(id)) != key { // "007" is not an ID
		return 0
	}
	return uint32(id)
}

var vppNodePrefix = strings.TrimPrefix(IDPrefix, models.KSRPrefix)

// set stores the record of a key, or removes it if v is nil. It returns the reason why the record is
// ignored.
func (r records) set(key string, id uint32, v *vppnode.VppNode) (mistake string) {
	delete(r.vppNodes, id)
	delete(r.hosts, id)
	delete(r.mistakes, key)
	defer func() {
		if mistake != "" {
			r.mistakes[key] = mistake
		}
	}()
	switch {
	case v == nil:
		return ""
	case id == 0:
		return "its key is not an ID"
	case v.GetId() != id:
		return "its id differs from the id in its key"
	case v.GetName() == "":
		return "it has no name"
	}
	r.vppNodes[id], r.hosts[id] = v, hostOf(v)
	return ""
}

// of returns the record in use for a name, or nil.
func (r records) of(name string) (best *vppnode.VppNode) {
	for _, v := range r.vppNodes {
		if v.GetName() == name && (best == nil || better(v, best)) {
			best = v
		}
	}
	return best
}

func (r records) hasOtherID(name string, id uint32) bool {
	for other, v := range r.vppNodes {
		if other != id && v.GetName() == name {
			return true
		}
	}
	return false
}

func better(a, b *vppnode.VppNode) bool {
	if hasA, hasB := len(vppAddresses(a)) > 0, len(vppAddresses(b)) > 0; hasA != hasB {
		return hasA
	}
	return a.GetId() < b.GetId()
}

type disputed struct {
	addr          netip.Addr
	owner, others string
}

func (d disputed) String() string {
	return fmt.Sprintf("several nodes publish the address %v: %.253s has it, and %.253s does not get it; remove the records of deleted nodes", d.addr, d.owner, d.others)
}

// findings are records, and addresses in records, that are not used.
type findings struct {
	refused  []refused
	disputed []disputed
}

func (r records) nodes(own *Node) (Nodes, findings) {
	best := map[string]*vppnode.VppNode{}
	for _, v := range r.vppNodes {
		if other := best[v.GetName()]; other == nil || better(v, other) {
			best[v.GetName()] = v
		}
	}
	nodes := make(Nodes, len(best)+1)
	get := func(name string) *Node {
		if nodes[name] == nil {
			nodes[name] = &Node{Name: name}
		}
		return nodes[name]
	}
	for name, v := range best {
		get(name).setVPPNode(v, r.hosts[v.GetId()])
	}
	if own != nil {
		self := *own
		nodes[own.Name] = &self
	}
	for name, k := range r.kubeNodes {
		get(name).setKubeNode(k)
	}
	if own != nil && r.kubeNodes[own.Name] == nil {
		get(own.Name).setKubeNode(nil)
	}
	found := findings{refused: refuse(nodes, own, r.ofPlan)}
	found.disputed = settle(nodes, own)
	settleHosts(nodes, own)
	return nodes, found
}

// settleHosts removes addresses from Host that another node has in Kubernetes or for its vswitch, so that
// a node cannot take them from it. This node publishes all that its machine has.
func settleHosts(nodes Nodes, own *Node) {
	owners := make(map[netip.Addr]*Node, len(nodes))
	for _, node := range nodes {
		for _, addr := range node.MgmtIPs {
			owners[addr] = node
		}
		for _, p := range node.VPPIPs {
			owners[p.Addr()] = node
		}
	}
	for _, node := range nodes {
		foreign := func(addr netip.Addr) bool { return owners[addr] != nil && owners[addr] != node }
		if (own == nil || node.Name != own.Name) && slices.ContainsFunc(node.Host.Addresses, foreign) {
			node.Host.Addresses = slices.DeleteFunc(slices.Clone(node.Host.Addresses), foreign)
		}
	}
}

func settle(nodes Nodes, own *Node) (list []disputed) {
	owners := make(map[netip.Addr]*Node, len(nodes))
	var twice map[netip.Addr]bool
	for _, node := range nodes {
		for _, p := range node.VPPIPs {
			if owners[p.Addr()] == nil {
				owners[p.Addr()] = node
			} else if owners[p.Addr()] != node {
				if twice == nil {
					twice = map[netip.Addr]bool{}
				}
				twice[p.Addr()] = true
			}
		}
	}
	for _, addr := range slices.SortedFunc(maps.Keys(twice), netip.Addr.Compare) {
		var claimants []*Node
		for _, node := range nodes {
			if slices.ContainsFunc(node.VPPIPs, func(p netip.Prefix) bool { return p.Addr() == addr }) {
				claimants = append(claimants, node)
			}
		}
		slices.SortFunc(claimants, func(a, b *Node) int {
			return cmp.Or(cmp.Compare(rank(a, addr, own), rank(b, addr, own)), cmp.Compare(a.ID, b.ID))
		})
		d := disputed{addr: addr, owner: claimants[0].Name}
		for _, loser := range claimants[1:] {
			loser.VPPIPs = slices.DeleteFunc(slices.Clone(loser.VPPIPs), func(p netip.Prefix) bool { return p.Addr() == addr })
			d.others = strings.TrimPrefix(d.others+", "+loser.Name, ", ")
		}
		list = append(list, d)
	}
	return list
}

// rank returns the priority of a node for an address. 0 is the highest.
func rank(node *Node, addr netip.Addr, own *Node) int {
	switch {
	case own != nil && node.Name == own.Name:
		return 0
	case slices.Contains(node.MgmtIPs, addr):
		return 1
	case node.inKube:
		return 2
	}
	return 3
}
