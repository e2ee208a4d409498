package ctl

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/ctl/status"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/spf13/cobra"
)

// Node is an element of the output of "nodes" in JSON and YAML.
type Node struct {
	nodesync.NodeReport
	// Agent is "ready", "not ready" or "unreachable"; empty if the CLI knows no agent of the node.
	Agent string `json:"agent,omitempty"`
	// Problem is why the agent is not ready.
	Problem string `json:"problem,omitempty"`
}

func (c *cli) nodesCommand() *cobra.Command {
	return listing(&cobra.Command{
		Use:   "nodes",
		Short: "List the nodes with IDs and addresses",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := c.limited(cmd)
			defer cancel()
			agents, err := c.targets.Selected(ctx, nil)
			if err != nil {
				return err
			}
			return c.showNodes(ctx, agents)
		},
	})
}

func (c *cli) showNodes(ctx context.Context, agents []*Agent) error {
	reports := target.GetAll[nodesync.NodesReport](ctx, agents, nodesync.NodesURL, nil)
	probes := target.Ask(ctx, agents, status.AskReady)
	nodes := mergeNodes(reports)
	addAgents(nodes, reports, probes)

	sorted := slices.SortedFunc(maps.Values(nodes), func(a, b *Node) int {
		// Nodes without an ID come last.
		return cmp.Or(cmp.Compare(a.ID-1, b.ID-1), cmp.Compare(a.Name, b.Name))
	})
	if c.format == asName {
		for _, n := range sorted {
			c.writeNames([]string{n.Name})
		}
	} else if c.format != asTable {
		if sorted == nil {
			sorted = []*Node{}
		}
		if err := c.format.encode(c.out, sorted); err != nil {
			return err
		}
	} else if len(sorted) > 0 {
		t := c.printer().Table("ID", "NODE", "VSWITCH-IP", "MANAGEMENT-IP", "POD-CIDR", "AGENT")
		for _, n := range sorted {
			state := n.Agent
			if n.Problem != "" {
				state += ": " + n.Problem
			}
			t.Add(idText(n.ID), n.Name, strings.Join(n.VPPIPs, ","), strings.Join(n.MgmtIPs, ","), strings.Join(n.PodCIDRs, ","), state)
		}
		t.Print()
	}
	return reportErrors(c, reports)
}

// mergeNodes merges the agents' views of the cluster. A node's own view wins.
func mergeNodes(reports []answer[nodesync.NodesReport]) map[string]*Node {
	nodes := make(map[string]*Node)
	for _, r := range reports {
		for _, n := range r.Value.Nodes {
			if nodes[n.Name] == nil || r.Value.ThisNode == n.Name {
				nodes[n.Name] = &Node{NodeReport: n}
			}
		}
	}
	return nodes
}

// addAgents adds the state of each agent, under the node name that it reports, which may differ
// from its name in the configuration.
func addAgents(nodes map[string]*Node, reports []answer[nodesync.NodesReport], probes []answer[status.Probe]) {
	for i, p := range probes {
		name := p.Agent.Name
		if this := reports[i].Value.ThisNode; this != "" {
			name = this
		}
		if nodes[name] == nil {
			nodes[name] = &Node{NodeReport: nodesync.NodeReport{Name: name, VPPIPs: []string{}, MgmtIPs: []string{}}}
		}
		nodes[name].Agent, nodes[name].Problem = p.Value.State, p.Value.Problem
		if p.Err != nil {
			nodes[name].Agent = status.Unreachable // the error is reported besides
		}
	}
}
