package nodesync

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// Other nodes send to the addresses that a node publishes. Whoever has the credentials of a node can
// publish any, so those that cannot be the node's are refused: the node then has no tunnel. An address
// of a host outside of the cluster cannot be distinguished, because a vswitch may have another address
// than its node in Kubernetes.

// refused is an address that a node publishes and does not get.
type refused struct {
	node string
	addr netip.Addr
	why  string
}

func (r refused) String() string {
	return fmt.Sprintf("node %.253s publishes the address %v for its vswitch and does not get it, because it is %s", r.node, r.addr, r.why)
}

// refuse removes the addresses of other nodes that cannot be theirs. ofPlan returns the network of the
// address plan that contains an address, or "".
func refuse(nodes Nodes, own *Node, ofPlan func(netip.Addr) string) (list []refused) {
	ofKube := map[netip.Addr]*Node{}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		for _, addr := range nodes[name].MgmtIPs {
			if ofKube[addr] == nil {
				ofKube[addr] = nodes[name]
			}
		}
	}
	why := func(node *Node, addr netip.Addr) string {
		owner := ofKube[addr]
		switch network := ofPlan(addr); {
		case !reachable(addr) || addr.IsUnspecified() || addr.Is4In6() || isBroadcast(addr, own):
			return "no address of a host"
		case network != "":
			return "in " + network
		case owner != nil && owner != node && !slices.Contains(node.MgmtIPs, addr):
			return "an address of node " + owner.Name
		case own != nil && slices.Contains(own.Host.Addresses, addr):
			return "an address of node " + own.Name
		}
		return ""
	}
	for _, node := range nodes {
		if own != nil && node.Name == own.Name {
			continue
		}
		node.VPPIPs = slices.DeleteFunc(slices.Clone(node.VPPIPs), func(p netip.Prefix) bool {
			reason := why(node, p.Addr())
			if reason != "" {
				list = append(list, refused{node.Name, p.Addr(), reason})
			}
			return reason != ""
		})
	}
	slices.SortFunc(list, func(a, b refused) int { return cmp.Or(cmp.Compare(a.node, b.node), a.addr.Compare(b.addr)) })
	return list
}

// isBroadcast reports whether an address is the broadcast address of IPv4, or of a network of this node.
func isBroadcast(addr netip.Addr, own *Node) bool {
	if !addr.Is4() {
		return false
	}
	if addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return true
	}
	return own != nil && slices.ContainsFunc(own.VPPIPs, func(p netip.Prefix) bool {
		return p.Bits() < 31 && p.Contains(addr) && !p.Contains(addr.Next())
	})
}
