package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/contiv/contiv/test/lab"
)

// Root is the directory of all clusters.
const Root = "/run/contiv-e2e"

// Options of a cluster. Required unless they have a default, except Forwarder and Progress.
type Options struct {
	// Name of the cluster and of the lab below it: up to 12 lower-case letters and digits.
	Name string
	// Nodes of the cluster: node1 to node<Nodes>.
	Nodes int
	// BinDir holds Contiv's programs from make build.
	BinDir string
	// KubernetesDir holds Kubernetes' programs from hack/kubernetes/build.sh, and CoreDNS from
	// hack/coredns/build.sh.
	KubernetesDir string
	// RuntimeDir holds containerd, runc and CNI plugins from hack/containerd/build.sh.
	RuntimeDir string
	// DebianDir holds the unpacked packages of hack/kubernetes/packages.sh.
	DebianDir string
	// ContivArchive is an archive from make images with the image ContivImage. Default: made of the
	// programs in BinDir and this machine's files.
	ContivArchive string
	// VPPArchive is the same with the image ContivVPPImage.
	VPPArchive string
	// Manifests are the files that install Contiv.
	Manifests []string
	// VSwitches of the nodes, in turn: "kernel" or "vpp". Default "kernel".
	VSwitches []string
	// SingleNIC makes VPP nodes share their only NIC with VPP, by contiv-stn.
	SingleNIC bool
	// WithoutProxy creates a cluster without kube-proxy: Contiv implements services.
	WithoutProxy bool
	// IP versions of nodes, pods and services. Default IPv4; others need the kernel vswitch.
	IP IPVersions
	// VPPBin is the VPP binary for VPP nodes. Default $VPP_BIN.
	VPPBin string
	// Forwarder is a command that makes the API server reachable from Up's namespace, like
	// lab.Forward, with the arguments --listen HOST:PORT --netns NAME --to HOST:PORT. nil: only the
	// cluster's own namespaces reach it.
	Forwarder []string
	// Slow multiplies all timeouts, for emulated machines. Default 1.
	Slow int
	// Progress receives progress lines; may be nil.
	Progress func(line string)
}

// Cluster is a Kubernetes cluster on this machine.
type Cluster struct {
	opts  Options
	dir   string
	lab   *lab.Lab
	nodes []lab.Node
	// underlay is the namespace of the control plane.
	underlay string
}

func newCluster(opts Options) *Cluster {
	return &Cluster{opts: opts, dir: filepath.Join(Root, opts.Name)}
}

// Up creates a cluster and returns when its nodes are registered; they become ready after Install.
// It first removes the remains of an earlier cluster of the name. If Up fails, it leaves nothing
// behind.
func Up(ctx context.Context, opts Options) (*Cluster, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	if err := Down(ctx, opts.Name); err != nil {
		return nil, fmt.Errorf("removing the remains of cluster %s: %w", opts.Name, err)
	}
	c := newCluster(opts)
	if err := c.make(ctx); err != nil {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), downTimeout)
		defer cancel()
		return nil, errors.Join(err, Down(clean, opts.Name))
	}
	return c, nil
}

func (o Options) check() error {
	if err := o.IP.check(o.VSwitches); err != nil {
		return err
	}
	var missing []string
	for _, file := range o.programs() {
		if _, err := os.Stat(file); err != nil {
			missing = append(missing, file)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("missing: %s (make e2e builds and unpacks them)", strings.Join(missing, ", "))
	}
	return nil
}

func (o Options) programs() []string {
	files := append([]string{}, o.Manifests...)
	for _, name := range []string{"contiv-agent", "contiv-cni", "contiv-init", "contiv-ksr", "contiv-etcd", "contiv-stn", "contivctl", "contiv-calico-routes"} {
		files = append(files, filepath.Join(o.BinDir, name))
	}
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl", "kubelet", "coredns"} {
		files = append(files, filepath.Join(o.KubernetesDir, name))
	}
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc"} {
		files = append(files, filepath.Join(o.RuntimeDir, name))
	}
	return append(files, filepath.Join(o.DebianDir, "bin/busybox"))
}

func (c *Cluster) make(ctx context.Context) error {
	if err := c.makeDirectory(); err != nil {
		return err
	}
	var err error
	c.lab, err = lab.Up(ctx, lab.Options{
		Name: c.opts.Name, Nodes: c.opts.Nodes, BinDir: c.opts.BinDir, Bare: true, VSwitches: c.opts.VSwitches, SingleNIC: c.opts.SingleNIC, VPPBin: c.opts.VPPBin,
		StartTimeout: c.opts.limit(startTimeout), Progress: c.opts.Progress,
	})
	if err == nil {
		err = c.readState()
	}
	if err != nil {
		return err
	}
	if err := c.addNetworks(ctx); err != nil {
		return fmt.Errorf("adding IPv6 to the nodes: %w", err)
	}
	sockets := map[string]string{}
	for _, n := range c.nodes {
		sockets[n.Name] = c.agentSocket(n.Name)
	}
	if err := c.lab.WriteCtlConfig(sockets); err != nil {
		return err
	}
	images := make(chan error, 1)
	go func() { images <- c.writeImages() }()
	if err := c.writeIdentities(); err != nil {
		<-images
		return err
	}
	if err = c.startControlPlane(ctx); err == nil {
		err = c.startForwarder(ctx)
	}
	if err := errors.Join(err, <-images); err != nil {
		return err
	}
	for _, n := range c.nodes {
		if err := c.startNode(ctx, n); err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	return nil
}

func (c *Cluster) readState() error {
	state, err := c.lab.State()
	if err != nil {
		return err
	}
	if c.opts.IP == IPv6 {
		for i, n := range state.Nodes {
			state.Nodes[i].Address = network6.node(n)
		}
	}
	c.nodes, c.underlay, c.opts.VPPBin = state.Nodes, state.Underlay(), state.VPPBin
	return nil
}

// Open returns an existing cluster, possibly of another process.
func Open(opts Options) (*Cluster, error) {
	c := newCluster(opts)
	var err error
	c.lab, err = lab.Open(lab.Options{Name: opts.Name, StartTimeout: opts.limit(startTimeout), Progress: opts.Progress})
	if err == nil {
		err = c.readState()
	}
	return c, err
}

// startTimeout bounds the start of a Kubernetes component.
const startTimeout = 3 * time.Minute

func (o Options) limit(d time.Duration) time.Duration { return d * time.Duration(max(o.Slow, 1)) }

// Dir is the directory of the cluster.
func (c *Cluster) Dir() string { return c.dir }

// hasVPP reports whether any node has VPP.
func (c *Cluster) hasVPP() bool { return slices.ContainsFunc(c.nodes, lab.Node.OnVPP) }

// Lab is the lab of the nodes.
func (c *Cluster) Lab() *lab.Lab { return c.lab }

// Nodes of the cluster.
func (c *Cluster) Nodes() []lab.Node { return c.nodes }

func (c *Cluster) path(elem ...string) string {
	return filepath.Join(append([]string{c.dir}, elem...)...)
}

// nodePath returns a path in a node's directory. /var/lib/kubelet of a real machine is
// nodePath(node, "kubelet").
func (c *Cluster) nodePath(node string, elem ...string) string {
	return c.path(append([]string{"nodes", node}, elem...)...)
}

func (c *Cluster) progress(format string, args ...any) {
	if c.opts.Progress != nil {
		c.opts.Progress(fmt.Sprintf(format, args...))
	}
}
