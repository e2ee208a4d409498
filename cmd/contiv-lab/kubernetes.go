package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/contiv/contiv/test/e2e"
	"github.com/contiv/contiv/test/lab"
	"github.com/spf13/cobra"
)

// kubernetesOptions holds the options of up --kubernetes.
type kubernetesOptions struct {
	wanted bool
	places e2e.Places
}

func (k *kubernetesOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&k.wanted, "kubernetes", false, "create a real Kubernetes cluster, with Contiv installed from its manifests")
	f.StringVar(&k.places.Source, "source", "", "with --kubernetes: source tree of Contiv (default: the tree that contains contiv-lab or the current directory)")
	f.StringVar(&k.places.Cache, "cache", "", "with --kubernetes: directory that caches the programs of Kubernetes (default ~/.cache/contiv)")
}

// complete sets the options that have no flag.
func (k *kubernetesOptions) complete(binDir string) (err error) {
	if k.places.Cache == "" {
		if k.places.Cache, err = e2e.DefaultCache(); err != nil {
			return fmt.Errorf("--cache: %w", err)
		}
	}
	if k.places.Cache, err = filepath.Abs(k.places.Cache); err != nil {
		return err
	}
	if k.places.Source != "" {
		k.places.Source, err = e2e.FindSource(k.places.Source)
		return err
	}
	here, err := os.Getwd()
	if err == nil {
		k.places.Source, err = e2e.FindSource(binDir, here)
	}
	return err
}

// upKubernetes creates the cluster and prints how to use it.
func (c *cli) upKubernetes(ctx context.Context, k kubernetesOptions) error {
	if c.opts.Root != lab.Root {
		return errors.New("--root: a Kubernetes cluster is always below " + e2e.Root + " and " + lab.Root)
	}
	if os.Geteuid() != 0 {
		return errors.New("creating network namespaces, cgroups and mounts requires root: run the command as root")
	}
	own, err := os.Executable()
	if err != nil {
		return err
	}
	binDir, err := filepath.Abs(c.opts.BinDir)
	if err != nil {
		return err
	}
	if err := k.complete(binDir); err != nil {
		return err
	}
	if slices.Contains(e2e.List(), c.opts.Name) {
		if l, err := c.open(); err == nil {
			if st, err := l.State(); err == nil && st.Phase == lab.Running {
				return fmt.Errorf("cluster %s is already up; stop it with %s, or use --name for another cluster", c.opts.Name, lab.Command(c.opts.Name, "down"))
			}
		}
	}
	opts := e2e.Options{
		Name: c.opts.Name, Nodes: c.opts.Nodes, BinDir: binDir,
		VSwitches: c.opts.VSwitches, VPPBin: c.opts.VPPBin,
		Forwarder: []string{own, forwardCommand}, Progress: c.opts.Progress,
	}
	if err := k.places.Prepare(ctx, &opts, os.Stderr); err != nil {
		return err
	}
	var cluster *e2e.Cluster
	err = c.guarded(func() error {
		if cluster, err = e2e.Up(ctx, opts); err != nil {
			return err
		}
		if err := cluster.Install(ctx); err != nil {
			return errors.Join(err, c.remove(context.WithoutCancel(ctx), c.opts))
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.explainKubernetes(cluster, opts)
	return nil
}

func (c *cli) explainKubernetes(cluster *e2e.Cluster, opts e2e.Options) {
	name := ""
	if c.opts.Name != lab.DefaultName {
		name = " --name " + c.opts.Name
	}
	fmt.Printf(`Kubernetes cluster %[1]s is up after %[2]s, and its nodes are ready. Use it:

  export KUBECONFIG=%[3]s PATH="%[4]s:$PATH"
  kubectl get nodes,pods -A -o wide
  kubectl create deployment web --image %[5]s --replicas 4 -- sh -c 'hostname >/tmp/index.html; exec httpd -f -p 8080 -h /tmp'
  kubectl expose deployment web --port 80 --target-port 8080
  kubectl get pods,services -o wide
  contiv-lab%[6]s ctl pods
  contiv-lab%[6]s exec node1 -- curl -s http://SERVICE-IP/
  contiv-lab%[6]s down
`, c.opts.Name, time.Since(c.began).Round(time.Second), cluster.Kubeconfig(), opts.KubernetesDir, e2e.BusyboxImage, name)
}

// remove removes a lab, including its Kubernetes cluster.
func (c *cli) remove(ctx context.Context, opts lab.Options) error {
	if opts.Root == lab.Root && slices.Contains(e2e.List(), opts.Name) {
		c.say("removing Kubernetes cluster " + opts.Name)
		return e2e.Down(ctx, opts.Name)
	}
	return lab.Down(ctx, opts)
}

// forwardCommand is a hidden command that up --kubernetes leaves running.
const forwardCommand = "forward"

func (c *cli) forwardCommand() *cobra.Command {
	var listen, netns, to string
	cmd := &cobra.Command{
		Use:    forwardCommand,
		Short:  "Forward connections to an address in a network namespace",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", listen)
			if err != nil {
				return err
			}
			return lab.Forward(cmd.Context(), l, netns, to)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "", "HOST:PORT to listen on")
	cmd.Flags().StringVar(&netns, "netns", "", "name of the network namespace")
	cmd.Flags().StringVar(&to, "to", "", "HOST:PORT in the network namespace")
	return cmd
}
