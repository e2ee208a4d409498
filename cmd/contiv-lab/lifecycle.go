package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/contiv/contiv/internal/ctl"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/test/e2e"
	"github.com/contiv/contiv/test/lab"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

func (c *cli) upCommand() *cobra.Command {
	var k kubernetesOptions
	var file string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Create a lab or a Kubernetes cluster",
		Long: `Create a lab, and return when its agents are ready. The lab outlives the command and its terminal.
Remains of a crashed lab of the same name are removed first.

With --vswitch vpp, the nodes use VPP; with --vswitch kernel,vpp, every second node does. --vpp-bin or
the environment variable VPP_BIN sets the program of VPP. With --single-nic, VPP has no NIC of its own,
and contiv-stn lends it the host's.

As in a cluster, etcd accepts only TLS, identifies each node by its certificate, and lets it write only
its own keys; "contiv-lab credentials" creates further certificates. With --plain-text, anyone that can
reach etcd, including any pod, can rewrite the network of the lab.

With --calico, the lab is a Calico cluster without BGP: three nodes, each with a pod in IPv4 and IPv6
blocks of Calico's IPAM, and contiv-calico-routes on each node to program the routes.

With --kubernetes, the nodes run a real kubelet and container runtime, with a control plane. The first
run builds these programs, which takes minutes.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.checkNodes(); err != nil {
				return err
			}
			if k.wanted && (c.opts.Calico || c.opts.PlainText) {
				return ctl.Misused(errors.New("--kubernetes excludes --calico and --plain-text: drop them"))
			}
			if k.wanted && c.opts.SingleNIC {
				return ctl.Misused(errors.New("--kubernetes excludes --single-nic: drop it"))
			}
			if !k.wanted && (k.places.Source != "" || k.places.Cache != "") {
				return ctl.Misused(errors.New("--source and --cache require --kubernetes: add it, or drop them"))
			}
			if (k.wanted || c.opts.Calico) && (file != "" || c.opts.DualStack || c.opts.IPv6) {
				return ctl.Misused(errors.New("--config, --dual-stack and --ipv6 exclude --calico and --kubernetes: drop one side"))
			}
			if c.opts.DualStack && c.opts.IPv6 {
				return ctl.Misused(errors.New("--dual-stack and --ipv6 exclude each other: drop one of them"))
			}
			if err := c.readConfig(file); err != nil {
				return err
			}
			if k.wanted {
				return c.upKubernetes(cmd.Context(), k)
			}
			if c.opts.Calico {
				return c.upCalico(cmd.Context(), cmd.Flags().Changed("nodes"))
			}
			if err := c.opts.Check(); err != nil {
				return ctl.Misused(err)
			}
			err := c.guarded(func() error {
				_, err := lab.Up(cmd.Context(), c.opts)
				return err
			})
			if err != nil {
				return err
			}
			next := func(words string) string { return lab.Command(c.opts.Name, words) }
			fmt.Printf("Lab %s is up after %s. Next: %s, %s, %s, %s\n",
				c.opts.Name, time.Since(c.began).Round(10*time.Millisecond), next("pod add web"), next("status"), next("matrix"), next("down"))
			return nil
		},
	}
	cmd.Flags().IntVar(&c.opts.Nodes, "nodes", 2, "number of nodes")
	cmd.Flags().StringSliceVar(&c.opts.VSwitches, "vswitch", nil, "vswitches of the nodes in turn: kernel, vpp (default kernel)")
	cmd.Flags().StringVar(&c.opts.VPPBin, "vpp-bin", "", "program of VPP (default: environment VPP_BIN)")
	cmd.Flags().BoolVar(&c.opts.SingleNIC, "single-nic", false, "give nodes with VPP a single NIC, which contiv-stn lends to VPP")
	cmd.Flags().BoolVar(&c.opts.Calico, "calico", false, "create a Calico cluster without BGP, with routes by contiv-calico-routes (default --nodes 3)")
	cmd.Flags().BoolVar(&c.opts.PlainText, "plain-text", false, "run etcd without certificates, so that anyone, including any pod, can rewrite the network of the lab")
	cmd.Flags().StringVar(&file, "config", "", "contiv.conf for the nodes (default: none)")
	cmd.Flags().BoolVar(&c.opts.DualStack, "dual-stack", false, "give nodes, pods and services IPv6 addresses in addition to IPv4")
	cmd.Flags().BoolVar(&c.opts.IPv6, "ipv6", false, "give nodes, pods and services IPv6 addresses only")
	c.binDirFlag(cmd)
	k.register(cmd)
	return cmd
}

// readConfig reads and checks the nodes' contiv.conf.
func (c *cli) readConfig(file string) error {
	if file == "" {
		return nil
	}
	data, err := os.ReadFile(file)
	if err == nil {
		err = contivconf.CheckFile(file)
	}
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	given, err := contivconf.Load(data)
	if err != nil {
		return err
	}
	if given.StealFirstNIC || given.StealInterface != "" || len(given.NodeConfig) > 0 && slices.Contains(c.opts.VSwitches, lab.VPPVSwitch) {
		return fmt.Errorf("--config: %s: the lab selects the NIC of VPP: drop nodeConfig, stealInterface and stealFirstNIC, or use --single-nic to lend VPP the NIC of the host", file)
	}
	var keys map[string]any
	if err := yaml.Unmarshal(data, &keys); err != nil {
		return err
	}
	for _, key := range []string{"stealInterface", "stnSocketFile"} {
		if _, has := keys[key]; has && c.opts.SingleNIC {
			return fmt.Errorf("--config: %s: with --single-nic, the lab selects the NIC of VPP and the socket of contiv-stn: drop %s", file, key)
		}
	}
	c.opts.ContivConfig = string(data) + "\n"
	return nil
}

func (c *cli) downCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop and remove a lab",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// A signal must not stop it halfway; it has a deadline.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), 2*time.Minute)
			defer cancel()
			if all && cmd.Flags().Changed("name") {
				return ctl.Misused(errors.New("--name and --all exclude each other: drop one of them"))
			}
			names := []string{c.opts.Name}
			if all {
				var err error
				if names, err = lab.List(c.opts.Root); err != nil {
					return err
				}
				if c.opts.Root == lab.Root {
					names = append(names, e2e.List()...) // including clusters without lab
				}
			}
			for _, name := range names {
				opts := c.opts
				opts.Name = name
				if there, err := c.exists(opts); err != nil || !there && !all {
					return cmp.Or(err, fmt.Errorf("%w: %s; contiv-lab list shows the existing labs", lab.ErrNoLab, name))
				}
				if err := c.remove(ctx, opts); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "remove all labs")
	return cmd
}

// exists reports whether a lab, or a remainder of one, exists.
func (c *cli) exists(opts lab.Options) (bool, error) {
	_, err := lab.Open(opts)
	if !errors.Is(err, lab.ErrNoLab) {
		return err == nil, err
	}
	_, err = os.Stat(filepath.Join(cmp.Or(opts.Root, lab.Root), opts.Name))
	return err == nil || opts.Root == lab.Root && slices.Contains(e2e.List(), opts.Name), nil
}

func (c *cli) listCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the labs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("name") {
				return ctl.Misused(errors.New("list shows all labs: drop --name, or use \"contiv-lab status\""))
			}
			names, err := lab.List(c.opts.Root)
			if err != nil {
				return err
			}
			if len(names) == 0 {
				c.say("no lab; contiv-lab up creates one")
			}
			w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tPHASE\tNODES\tPODS\tAGE")
			for _, name := range names {
				opts := c.opts
				opts.Name = name
				l, err := lab.Open(opts)
				if err != nil {
					return err
				}
				st, err := l.State()
				if err != nil {
					continue // removed in the meantime
				}
				fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\n", name, st.Phase, len(st.Nodes), len(st.Pods), time.Since(st.Created).Round(time.Second))
			}
			return w.Flush()
		},
	}
}

func (c *cli) statusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show processes, nodes and pods, and fail if one is not ready",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := c.open()
			if err != nil {
				return err
			}
			st, err := l.State()
			if err != nil {
				return err
			}
			if asJSON {
				out := json.NewEncoder(os.Stdout)
				out.SetIndent("", "  ")
				return out.Encode(st)
			}
			return printStatus(cmd.Context(), l, st)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the state as JSON")
	return cmd
}

func printStatus(ctx context.Context, l *lab.Lab, st *lab.State) error {
	fmt.Printf("Lab %s is %s, created %s ago; directory %s\n\n", st.Name, st.Phase, time.Since(st.Created).Round(time.Second), l.Dir())
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PROCESS\tPID\tSTATE\tSINCE\tLOG")
	unwell := 0
	for _, h := range l.Health(ctx, st) {
		state := "ready"
		switch {
		case !h.Alive:
			state = "not running"
		case h.NotReady != nil:
			state = "not ready: " + h.NotReady.Error()
		}
		if state != "ready" {
			unwell++
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", h.Role, h.Process.PID, state, time.Since(h.Process.Started).Round(time.Second), h.Process.Log)
	}
	fmt.Fprintln(w, "\nNODE\tADDRESS\tVSWITCH\tNETNS\tPODS\t")
	for _, n := range st.Nodes {
		vswitch := lab.KernelVSwitch
		if n.OnVPP() {
			vswitch = "vpp " + n.VPPAddress.String()
		}
		address := n.Address.String()
		if n.Address6.IsValid() {
			address += " " + n.Address6.String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t\n", n.Name, address, vswitch, n.Netns, len(st.PodsOf(n.Name)))
	}
	fmt.Fprintln(w, "\nPOD\tADDRESS\tNODE\tNETNS\t")
	for _, p := range slices.Clone(st.Pods) {
		address := p.Address.String()
		if p.Address6.IsValid() {
			address += " " + p.Address6.String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t\n", p.ID(), address, p.Node, p.Netns)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if unwell > 0 || st.Phase != lab.Running {
		return fmt.Errorf("lab %s is not ready: phase %s, %d processes not ready", st.Name, st.Phase, unwell)
	}
	return nil
}

func (c *cli) guardCommand() *cobra.Command {
	return &cobra.Command{
		Use:    lab.GuardCommand,
		Short:  "Remove the lab when the program that started this command exits",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c.opts.Progress = nil
			return lab.RunGuard(os.Stdin, c.opts, c.remove)
		},
	}
}
