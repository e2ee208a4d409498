package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/contiv/contiv/cni/install"
	"github.com/contiv/contiv/plugins/ipnet"
	"github.com/contiv/contiv/test/lab"
)

// Agent returns the REST API of the agent of a node.
func (c *Cluster) Agent(node string) *lab.REST {
	return lab.NewREST(c.agentSocket(node))
}

func (c *Cluster) agentSocket(node string) string {
	return c.nodePath(node, "var/run/contiv/agent.sock")
}

// KillAgent kills a node's agent. Kubelet restarts it.
func (c *Cluster) KillAgent(node string) error {
	return c.kill(node, "contiv-agent")
}

// KillVPP kills a node's VPP. contiv-init restarts it.
func (c *Cluster) KillVPP(node string) error { return c.kill(node, "vpp_main") }

// kill kills the process of a node by name.
func (c *Cluster) kill(node, name string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	found := lab.ProcessesIn(n.Netns, name)
	if len(found) != 1 {
		return fmt.Errorf("node %s has %d processes %s, not 1", node, len(found), name)
	}
	return found[0].Kill()
}

// WiredPods returns the pods connected by a node's agent.
func (c *Cluster) WiredPods(ctx context.Context, node string) ([]ipnet.PodReport, error) {
	var report ipnet.PodsReport
	return report.Pods, c.Agent(node).Get(ctx, ipnet.PodsURL, &report)
}

// Endpoint returns a running pod as a source and target of packets.
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
		// A lab names namespaces relative to its own directory.
		netns, err := filepath.Rel(lab.NetnsPath(""), p.NetNS)
		return lab.Endpoint{Name: namespace + "/" + pod, Kind: lab.PodEndpoint, Node: node, Netns: netns, Address: address.Addr()}, err
	}
	return lab.Endpoint{}, fmt.Errorf("the agent of %s has not wired pod %s/%s", node, namespace, pod)
}

// CNIStatus calls contiv-cni with STATUS, like a runtime with CNI 1.1.0.
func (c *Cluster) CNIStatus(ctx context.Context, node string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	config := fmt.Sprintf(`{"cniVersion": "1.1.0", "name": "k8s-pod-network", "type": "contiv-cni", "grpcServer": %q, "logFile": %q}`,
		c.nodePath(node, "var/run/contiv/cni.sock"), c.nodePath(node, "var/run/contiv/cni.log"))
	cmd := exec.CommandContext(ctx, filepath.Join(c.opts.BinDir, "contiv-cni"))
	cmd.Env = []string{"CNI_COMMAND=STATUS", "CNI_PATH=" + c.nodePath(node, "opt/cni/bin")}
	var output bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(config), &output, &output
	if err = c.Start(cmd, n.Netns); err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return fmt.Errorf("STATUS: %w: %s", err, strings.TrimSpace(output.String()))
	}
	return nil
}

// Conflist is the file that configures Contiv for a node's runtime.
func (c *Cluster) Conflist(node string) string {
	return c.nodePath(node, "etc/cni/net.d", install.ConflistName)
}
