package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"github.com/contiv/contiv/test/lab"
	"sigs.k8s.io/yaml"
)

func containerdRole(node string) string { return "containerd-" + node }
func kubeletRole(node string) string    { return "kubelet-" + node }
func proxyRole(node string) string      { return "kube-proxy-" + node }

// stopGrace is the time for kubelet and containerd to end by themselves.
const stopGrace = 10 * time.Second

// startNode creates a node's directory and starts its contiv-stn (single NIC and VPP only), its
// containerd, kubelet and, unless the cluster has none, kube-proxy.
func (c *Cluster) startNode(ctx context.Context, n lab.Node) error {
	for _, dir := range []string{"etc/cni/net.d", "opt/cni/bin", "var/run/contiv", "var/bolt", "run/vpp", "kubelet", "containerd", "logs"} {
		if err := os.MkdirAll(c.nodePath(n.Name, dir), 0o755); err != nil {
			return err
		}
	}
	if err := c.installPlugins(n); err != nil {
		return err
	}
	if err := os.WriteFile(c.nodePath(n.Name, "resolv.conf"), []byte("search .\n"), 0o644); err != nil {
		return err
	}
	if err := c.startSTN(ctx, n); err != nil {
		return err
	}
	if err := makeCgroup(c.cgroup(n.Name)); err != nil {
		return err
	}
	if err := c.StartContainerd(ctx, n.Name); err != nil {
		return err
	}
	if err := c.loadImages(ctx, n); err != nil {
		return err
	}
	if err := c.StartKubelet(ctx, n.Name); err != nil {
		return err
	}
	if c.opts.WithoutProxy {
		return nil
	}
	return c.startProxy(ctx, n)
}

func (c *Cluster) node(name string) (lab.Node, error) {
	for _, n := range c.nodes {
		if n.Name == name {
			return n, nil
		}
	}
	return lab.Node{}, fmt.Errorf("cluster %s has no node %s", c.opts.Name, name)
}

// installPlugins installs the CNI plugin needed by containerd, and the available ones that Contiv
// chains.
func (c *Cluster) installPlugins(n lab.Node) error {
	for _, name := range []string{"loopback", "bandwidth"} {
		data, err := os.ReadFile(filepath.Join(c.opts.RuntimeDir, "cni", name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(c.nodePath(n.Name, "opt/cni/bin", name), data, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// containerdConfig keeps all state of a containerd in its node's directory. Lowering oom_score_adj
// needs a capability that an outer container may lack. The socket of NRI would be the machine's.
var containerdConfig = template.Must(template.New("containerd").Parse(`version = 3
root = "{{.Dir}}/containerd/root"
state = "{{.Dir}}/containerd/state"
disabled_plugins = [
  "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs", "io.containerd.differ.v1.erofs",
  "io.containerd.internal.v1.opt", "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp",
]
[grpc]
  address = "{{.Dir}}/containerd.sock"
[plugins."io.containerd.nri.v1.nri"]
  disable = true
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{{.Pause}}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["{{.Dir}}/opt/cni/bin"]
  conf_dir = "{{.Dir}}/etc/cni/net.d"
[plugins."io.containerd.cri.v1.runtime".containerd]
  default_runtime_name = "runc"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  BinaryName = "{{.Runc}}"
  Root = "{{.Dir}}/runc"
  SystemdCgroup = false
`))

func (c *Cluster) containerdSocket(node string) string { return c.nodePath(node, "containerd.sock") }

// StartContainerd starts a node's container runtime unless it runs.
func (c *Cluster) StartContainerd(ctx context.Context, node string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	config, err := os.Create(c.nodePath(node, "containerd.toml"))
	if err != nil {
		return err
	}
	defer config.Close()
	err = containerdConfig.Execute(config, map[string]string{
		"Dir":   c.nodePath(node),
		"Pause": pauseImage,
		"Runc":  filepath.Join(c.opts.RuntimeDir, "runc"),
	})
	if err != nil {
		return err
	}
	c.progress("starting containerd on %s", node)
	return c.lab.StartGuest(ctx, lab.Guest{
		Role:  containerdRole(node),
		Netns: n.Netns,
		Command: []string{
			// containerd finds its shim in PATH.
			"/usr/bin/env", "PATH=" + c.opts.RuntimeDir + ":" + os.Getenv("PATH"),
			filepath.Join(c.opts.RuntimeDir, "containerd"), "--config", c.nodePath(node, "containerd.toml"),
		},
		Ready: func(ctx context.Context) error { return c.ctr(ctx, node, "version") },
	})
}

// StopContainerd stops a node's container runtime; containers keep running.
func (c *Cluster) StopContainerd(ctx context.Context, node string) error {
	return c.lab.StopGuest(ctx, containerdRole(node), stopGrace)
}

// ctr runs containerd's client on a node.
func (c *Cluster) ctr(ctx context.Context, node string, args ...string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	args = append([]string{"--address", c.containerdSocket(node), "--namespace", "k8s.io"}, args...)
	return c.run(ctx, n.Netns, filepath.Join(c.opts.RuntimeDir, "ctr"), args...)
}

// StartKubelet starts a node's kubelet unless it runs, and returns when the node is registered.
func (c *Cluster) StartKubelet(ctx context.Context, node string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	config, err := yaml.Marshal(c.kubeletConfig(n))
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.nodePath(node, "kubelet.yaml"), config, 0o600); err != nil {
		return err
	}
	c.progress("starting kubelet on %s", node)
	return c.lab.StartGuest(ctx, lab.Guest{
		Role:  kubeletRole(node),
		Netns: n.Netns,
		Command: []string{
			filepath.Join(c.opts.KubernetesDir, "kubelet"),
			"--config=" + c.nodePath(node, "kubelet.yaml"),
			"--kubeconfig=" + c.kubeconfig(node),
			"--hostname-override=" + node,
			"--node-ip=" + c.nodeIPs(n),
			"--root-dir=" + c.nodePath(node, "kubelet"),
			"--cert-dir=" + c.nodePath(node, "kubelet/pki"),
		},
		Ready: func(ctx context.Context) error {
			_, err := c.Kubectl(ctx, "get", "node", node)
			return err
		},
	})
}

// StopKubelet stops a node's kubelet; pods keep running.
func (c *Cluster) StopKubelet(ctx context.Context, node string) error {
	return c.lab.StopGuest(ctx, kubeletRole(node), stopGrace)
}

// kubeletConfig is for a kubelet on a shared machine, possibly with cgroups of version 1: it stays
// in its directory and cgroup, and evicts nothing because of disk usage by others.
func (c *Cluster) kubeletConfig(n lab.Node) map[string]any {
	return map[string]any{
		"apiVersion":               "kubelet.config.k8s.io/v1beta1",
		"kind":                     "KubeletConfiguration",
		"failCgroupV1":             false,
		"cgroupDriver":             "cgroupfs",
		"cgroupRoot":               c.cgroup(n.Name),
		"enforceNodeAllocatable":   []string{},
		"oomScoreAdj":              0,
		"failSwapOn":               false,
		"containerRuntimeEndpoint": "unix://" + c.containerdSocket(n.Name),
		"makeIPTablesUtilChains":   false,
		"resolvConf":               c.nodePath(n.Name, "resolv.conf"),
		"clusterDomain":            clusterDomain,
		"clusterDNS":               strings.Split(c.joined(dnsOf), ","),
		"podLogsDir":               c.nodePath(n.Name, "logs"),
		"volumePluginDir":          c.nodePath(n.Name, "volume-plugins"),
		"tlsCertFile":              c.pki(n.Name + "-serving.crt"),
		"tlsPrivateKeyFile":        c.pki(n.Name + "-serving.key"),
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": c.pki("ca.crt")},
		},
		"authorization":               map[string]any{"mode": "Webhook"},
		"evictionHard":                map[string]string{"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%", "imagefs.inodesFree": "0%"},
		"imageGCHighThresholdPercent": 100,
		"imageGCLowThresholdPercent":  99,
		"imageMinimumGCAge":           "24h",
		"serializeImagePulls":         true,
		"maxPods":                     110,
		"shutdownGracePeriod":         "0s",
	}
}
