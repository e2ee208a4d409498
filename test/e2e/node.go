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

// stopGrace is how long kubelet and containerd may take to end by themselves.
const stopGrace = 10 * time.Second

// startNode makes the directory of a node and starts its contiv-stn, if it has a single NIC
// and VPP, its containerd, kubelet and, unless the cluster is without, kube-proxy.
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

// installPlugins gives a node the plugin that containerd itself needs, and those
// that Contiv chains if they are there.
func (c *Cluster) installPlugins(n lab.Node) error {
	for _, name := range []string{"loopback", "bandwidth"} {
		data, err := os.ReadFile(filepath.Join(c.opts.DebianDir, "usr/lib/cni", name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(c.nodePath(n.Name, "opt/cni/bin", name), data, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// containerdConfig keeps all that a containerd has in the directory of its node.
// Lowering oom_score_adj needs a capability that a container around all this may
// lack.
var containerdConfig = template.Must(template.New("containerd").Parse(`version = 2
root = "{{.Dir}}/containerd/root"
state = "{{.Dir}}/containerd/state"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.opt", "io.containerd.internal.v1.tracing",
  "io.containerd.tracing.processor.v1.otlp",
]
[grpc]
  address = "{{.Dir}}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{{.Pause}}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{{.Dir}}/opt/cni/bin"
  conf_dir = "{{.Dir}}/etc/cni/net.d"
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "overlayfs"
  default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  BinaryName = "{{.Runc}}"
  Root = "{{.Dir}}/runc"
  SystemdCgroup = false
`))

func (c *Cluster) containerdSocket(node string) string { return c.nodePath(node, "containerd.sock") }

// StartContainerd starts the container runtime of a node, if it does not run.
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
		"Runc":  filepath.Join(c.opts.DebianDir, "usr/sbin/runc"),
	})
	if err != nil {
		return err
	}
	c.progress("starting containerd on %s", node)
	return c.lab.StartGuest(ctx, lab.Guest{
		Role:  containerdRole(node),
		Netns: n.Netns,
		Command: []string{
			// It looks for the shim in PATH.
			"/usr/bin/env", "PATH=" + filepath.Join(c.opts.DebianDir, "usr/bin") + ":" + os.Getenv("PATH"),
			filepath.Join(c.opts.DebianDir, "usr/bin/containerd"), "--config", c.nodePath(node, "containerd.toml"),
		},
		Ready: func(ctx context.Context) error { return c.ctr(ctx, node, "version") },
	})
}

// StopContainerd stops the container runtime of a node; containers go on.
func (c *Cluster) StopContainerd(ctx context.Context, node string) error {
	return c.lab.StopGuest(ctx, containerdRole(node), stopGrace)
}

// ctr runs containerd's command line client on a node.
func (c *Cluster) ctr(ctx context.Context, node string, args ...string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	args = append([]string{"--address", c.containerdSocket(node), "--namespace", "k8s.io"}, args...)
	return c.run(ctx, n.Netns, filepath.Join(c.opts.DebianDir, "usr/bin/ctr"), args...)
}

// StartKubelet starts the kubelet of a node, if it does not run, and returns when
// the node is registered.
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

// StopKubelet stops the kubelet of a node; pods go on.
func (c *Cluster) StopKubelet(ctx context.Context, node string) error {
	return c.lab.StopGuest(ctx, kubeletRole(node), stopGrace)
}

// kubeletConfig is for a kubelet that shares the machine, whose cgroups may be of
// version 1, with others: it keeps to its directory and cgroup, and evicts nothing
// because the disk is filled by somebody else.
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
