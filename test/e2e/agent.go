package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/containernetworking/cni/libcni"
	"github.com/contiv/contiv/internal/cni/install"
	"github.com/contiv/contiv/internal/plugins/ipnet"
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

// FreezeAgent stops a node's agent, like an endless loop, until the caller calls thaw.
func (c *Cluster) FreezeAgent(node string) (thaw func() error, err error) {
	p, err := c.process(node, "contiv-agent")
	if err != nil {
		return nil, err
	}
	return p.Freeze()
}

// kill kills the process of a node by name.
func (c *Cluster) kill(node, name string) error {
	p, err := c.process(node, name)
	if err != nil {
		return err
	}
	return p.Kill()
}

// process returns the only process of a node with the name.
func (c *Cluster) process(node, name string) (lab.Process, error) {
	n, err := c.node(node)
	if err != nil {
		return lab.Process{}, err
	}
	found := lab.ProcessesIn(n.Netns, name)
	if len(found) != 1 {
		return lab.Process{}, fmt.Errorf("node %s has %d processes %s, not 1", node, len(found), name)
	}
	return found[0], nil
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

// CNI returns the CNI library as a node's runtime uses it: with its plugins and its cache.
func (c *Cluster) CNI(node string) *libcni.CNIConfig {
	return libcni.NewCNIConfigWithCacheDir([]string{c.nodePath(node, "opt/cni/bin")}, filepath.Dir(cniResults), nil)
}

// NetnsPath is where a node's runtime would mount a network namespace.
func (c *Cluster) NetnsPath(node, name string) string {
	return c.nodePath(node, "containerd/state/io.containerd.grpc.v1.cri/netns", name)
}

// Sandboxes returns the IDs of all containers of a node's runtime, sandboxes included.
func (c *Cluster) Sandboxes(ctx context.Context, node string) ([]string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(c.opts.RuntimeDir, "ctr"), "--address", c.containerdSocket(node), "--namespace", "k8s.io", "containers", "list", "--quiet")
	out, err := cmd.Output()
	return strings.Fields(string(out)), err
}

// Conflist is the file that configures Contiv for a node's runtime.
func (c *Cluster) Conflist(node string) string {
	return c.nodePath(node, "etc/cni/net.d", install.ConflistName)
}
