package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"

	"github.com/contiv/contiv/plugins/ipnet"
	"github.com/contiv/contiv/test/lab"
)

// Agent returns the REST API of the agent of a node.
func (c *Cluster) Agent(node string) *lab.REST {
	return lab.NewREST(c.nodePath(node, "var/run/contiv/agent.sock"))
}

// KillAgent kills the agent of a node, as a crash would. Kubelet starts it again.
func (c *Cluster) KillAgent(node string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	agents := lab.ProcessesIn(n.Netns, "contiv-agent")
	if len(agents) != 1 {
		return fmt.Errorf("node %s has %d agents, not 1", node, len(agents))
	}
	return agents[0].Kill()
}

// WiredPods returns the pods that the agent of a node has wired.
func (c *Cluster) WiredPods(ctx context.Context, node string) ([]ipnet.PodReport, error) {
	var report ipnet.PodsReport
	return report.Pods, c.Agent(node).Get(ctx, ipnet.PodsURL, &report)
}

// Endpoint returns a running pod as a place to send packets from and to.
func (c *Cluster) Endpoint(ctx context.Context, node, namespace, pod string) (lab.Endpoint, error) {
	pods, err := c.WiredPods(ctx, node)
	if err != nil {
		return lab.Endpoint{}, err
	}
	for _, p := range pods {
		if p.Namespace != namespace || p.Name != pod || len(p.IPs) == 0 {
			continue
		}
		address, err := netip.ParsePrefix(p.IPs[0])
		if err != nil {
			return lab.Endpoint{}, err
		}
		// A lab names namespaces by where they are below its own directory of them.
		netns, err := filepath.Rel(lab.NetnsPath(""), p.NetNS)
		return lab.Endpoint{Name: namespace + "/" + pod, Kind: lab.PodEndpoint, Node: node, Netns: netns, Address: address.Addr()}, err
	}
	return lab.Endpoint{}, fmt.Errorf("the agent of %s has not wired pod %s/%s", node, namespace, pod)
}
