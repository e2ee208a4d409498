package ipnet

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// Outside reports the other nodes that have no place in the address plan and are not connected. It is
// safe for concurrent use.
func (n *IPNet) Outside(context.Context) (texts []string) {
	const most = 3
	plan, nodes := n.ipam.Plan(), n.nodes.GetAllNodes()
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		if name == n.config.NodeName() {
			continue
		}
		for _, f := range plan.Families() {
			if _, err := n.remoteFamily(&family{plan: f, podSubnet: f.Subnets.Pods}, nodes[name]); err != nil {
				texts = append(texts, fmt.Sprintf("node %.253s is not connected: %v", name, err))
				break
			}
		}
	}
	if more := len(texts) - most; more > 0 {
		texts = append(texts[:most], fmt.Sprintf("%d more nodes are not connected, because they have no place in the address plan", more))
	}
	return texts
}
