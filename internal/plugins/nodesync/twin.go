package nodesync

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// ErrNameTaken is wrapped if an agent uses the name of another node.
var ErrNameTaken = errors.New("the name of this node belongs to another node")

// identifyBy checks, on the first publication of addresses, that no other machine has this node's
// name. Otherwise, this agent would attract traffic to the other node's pods.
//
// The name belongs to another machine if its stored addresses are also in Kubernetes and this
// machine has none of them. So an address that changed while the agent was down is accepted once
// Kubernetes has the new one.
func (n *NodeSync) identifyBy(own *Node, addresses []netip.Prefix) error {
	here := func(addr netip.Addr) bool {
		return slices.ContainsFunc(addresses, func(p netip.Prefix) bool {
			return p.Addr() == addr || p.Addr().Is6() != addr.Is6() // ignore the other version
		})
	}
	if n.identified {
		return nil
	}
	addresses = append(slices.Clone(addresses), n.self.HostAddresses()...)
	var owner []netip.Addr
	for _, text := range n.stored.GetIpAddresses() {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			continue
		}
		if here(p.Addr()) {
			owner = nil
			break
		}
		if slices.Contains(own.MgmtIPs, p.Addr()) {
			owner = append(owner, p.Addr())
		}
	}
	if len(owner) > 0 && !slices.ContainsFunc(own.MgmtIPs, here) {
		return fmt.Errorf("node %s has the address %v in Kubernetes, but this machine has %v: %w; set the name of this node with --node-name",
			n.nodeName, owner[0], addresses, ErrNameTaken)
	}
	n.identified = true
	return nil
}
