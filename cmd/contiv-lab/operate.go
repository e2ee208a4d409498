package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/contiv/contiv/internal/ctl"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/kubernetes/ksr/access"
	"github.com/contiv/contiv/test/e2e"
	"github.com/contiv/contiv/test/lab"
	"github.com/spf13/cobra"
)

// withLab returns the RunE of a command for an existing lab that is no Kubernetes cluster.
func (c *cli) withLab(fn func(ctx context.Context, l *lab.Lab, args []string) error) func(*cobra.Command, []string) error {
	return c.withAnyLab(func(ctx context.Context, l *lab.Lab, args []string) error {
		st, err := l.State()
		if err != nil {
			return err
		}
		if st.Bare {
			return fmt.Errorf("lab %s is a Kubernetes cluster: use kubectl, %s and %s", l.Name(), lab.Command(l.Name(), "exec NODE"), lab.Command(l.Name(), "ctl"))
		}
		return fn(ctx, l, args)
	})
}

// withAnyLab returns the RunE of a command that also works on a Kubernetes cluster.
func (c *cli) withAnyLab(fn func(ctx context.Context, l *lab.Lab, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		l, err := c.open()
		if err != nil {
			return err
		}
		return fn(cmd.Context(), l, args)
	}
}

func (c *cli) applyCommand() *cobra.Command {
	return c.fileCommand("apply", "Apply Kubernetes objects through KSR; pods need a nodeName", (*lab.Lab).Apply)
}

func (c *cli) deleteCommand() *cobra.Command {
	return c.fileCommand("delete", "Delete the Kubernetes objects in a file, including pods", (*lab.Lab).Delete)
}

func (c *cli) fileCommand(name, short string, fn func(*lab.Lab, context.Context, string) ([]string, error)) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   name + " -f FILE",
		Short: short,
		Args:  cobra.NoArgs,
		RunE: c.withLab(func(ctx context.Context, l *lab.Lab, _ []string) error {
			if file == "" {
				return ctl.Misused(fmt.Errorf("%s needs a file of manifests: use %s, or - for standard input", name, name+" -f FILE"))
			}
			done, err := fn(l, ctx, file)
			for _, line := range done {
				fmt.Println(line)
			}
			var name lab.NameError
			if errors.As(err, &name) { // in the file, not on the command line
				return errors.New(err.Error())
			}
			return err
		}),
	}
	cmd.Flags().StringVarP(&file, "filename", "f", "", "file of manifests, YAML or JSON, or - for standard input")
	return cmd
}

func (c *cli) podCommand() *cobra.Command {
	pod := &cobra.Command{Use: "pod", Short: "Add and remove pods"}
	var node, namespace string
	add := &cobra.Command{
		Use:   "add NAME...",
		Short: "Create pods with contiv-cni",
		Args:  cobra.MinimumNArgs(1),
		RunE: c.withLab(func(ctx context.Context, l *lab.Lab, args []string) error {
			if namespace == "" {
				return ctl.Misused(errors.New("--namespace is empty: set a namespace, or omit it for " + lab.DefaultNamespace))
			}
			var specs []lab.PodSpec
			for _, name := range args {
				specs = append(specs, lab.PodSpec{Namespace: namespace, Name: name, Node: node})
			}
			pods, err := l.AddPods(ctx, 4, specs...)
			for _, p := range pods {
				fmt.Printf("pod %s: address %s on %s, network namespace %s\n", p.ID(), p.Address, p.Node, p.Netns)
			}
			return err
		}),
	}
	add.Flags().StringVar(&node, "node", "", "node of the pods (default: the node with the fewest pods)")
	del := &cobra.Command{
		Use:     "del NAME...",
		Aliases: []string{"delete"},
		Short:   "Remove pods",
		Args:    cobra.MinimumNArgs(1),
		RunE: c.withLab(func(ctx context.Context, l *lab.Lab, args []string) error {
			for i, name := range args {
				args[i] = inNamespace(namespace, name)
			}
			err := l.DelPods(ctx, args...)
			if err == nil {
				slices.Sort(args)
				fmt.Println("removed:", strings.Join(slices.Compact(args), ", "))
			}
			return err
		}),
	}
	for _, cmd := range []*cobra.Command{add, del} {
		cmd.Flags().StringVarP(&namespace, "namespace", "n", lab.DefaultNamespace, "Kubernetes namespace of the pods")
	}
	pod.AddCommand(add, del)
	return pod
}

func inNamespace(namespace, name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return namespace + "/" + name
}

func (c *cli) nodeCommand() *cobra.Command {
	node := &cobra.Command{Use: "node", Short: "Add, label and remove nodes, and stop and start their agents"}
	action := func(name, short string, fn func(context.Context, *lab.Lab, string) error) {
		node.AddCommand(&cobra.Command{
			Use:   name + " NODE",
			Short: short,
			Args:  cobra.ExactArgs(1),
			RunE: c.withLab(func(ctx context.Context, l *lab.Lab, args []string) error {
				return fn(ctx, l, args[0])
			}),
		})
	}
	action("add", "Add a node", func(ctx context.Context, l *lab.Lab, name string) error {
		n, err := l.AddNode(ctx, name)
		if err == nil {
			fmt.Printf("node %s: address %s, network namespace %s\n", n.Name, n.Address, n.Netns)
		}
		return err
	})
	node.AddCommand(&cobra.Command{
		Use:     "label NODE KEY=VALUE|KEY-...",
		Short:   "Set and remove labels of a Node object, such as its zone",
		Example: "  contiv-lab node label node1 topology.kubernetes.io/zone=east",
		Args:    cobra.MinimumNArgs(2),
		RunE: c.withLab(func(ctx context.Context, l *lab.Lab, args []string) error {
			return l.LabelNode(ctx, args[0], args[1:]...)
		}),
	})
	action("del", "Remove a node with its pods", func(ctx context.Context, l *lab.Lab, name string) error { return l.DelNode(ctx, name) })
	action("kill", "Kill the agent of a node (SIGKILL)", func(ctx context.Context, l *lab.Lab, name string) error { return l.KillAgent(ctx, name) })
	action("stop", "Stop the agent and VPP of a node (SIGTERM)", func(ctx context.Context, l *lab.Lab, name string) error { return l.StopAgent(ctx, name) })
	action("start", "Start the agent of a node if it is not running", func(ctx context.Context, l *lab.Lab, name string) error { return l.StartAgent(ctx, name) })
	action("restart", "Restart the agent of a node (SIGTERM)", func(ctx context.Context, l *lab.Lab, name string) error { return l.RestartAgent(ctx, name) })
	action("kill-vpp", "Kill the VPP of a node (SIGKILL); contiv-init restarts it", func(ctx context.Context, l *lab.Lab, name string) error { return l.KillVPP(ctx, name) })
	action("restart-vpp", "Restart the VPP of a node (SIGTERM and contiv-init)", func(ctx context.Context, l *lab.Lab, name string) error { return l.RestartVPP(ctx, name) })
	return node
}

func (c *cli) etcdCommand() *cobra.Command {
	etcd := &cobra.Command{Use: "etcd", Short: "Stop and start etcd"}
	etcd.AddCommand(
		&cobra.Command{Use: "stop", Short: "Stop etcd, keeping its data", Args: cobra.NoArgs,
			RunE: c.withLab(func(ctx context.Context, l *lab.Lab, _ []string) error { return l.StopEtcd(ctx) })},
		&cobra.Command{Use: "start", Short: "Start etcd with its data", Args: cobra.NoArgs,
			RunE: c.withLab(func(ctx context.Context, l *lab.Lab, _ []string) error { return l.StartEtcd(ctx) })},
	)
	return etcd
}

func (c *cli) credentialsCommand() *cobra.Command {
	var client access.Client
	var dir string
	cmd := &cobra.Command{
		Use:   "credentials NAME --node NODE... --dir DIR",
		Short: "Create credentials for configuring nodes through etcd",
		Long: `Create credentials for configuring the given nodes through etcd: write ca.pem, client.pem (certificate
and key) and an etcd.conf that refers to them. The credentials allow writing the configuration of these
nodes and reading the list of nodes, nothing else. Using a NAME again replaces its nodes.

etcd can only be reached from the nodes: contiv-lab exec node1 -- etcdctl ...`,
		Args: cobra.ExactArgs(1),
		RunE: c.withLab(func(ctx context.Context, l *lab.Lab, args []string) error {
			if dir == "" {
				return ctl.Misused(errors.New("--dir is missing: set a directory for the credentials"))
			}
			hint, err := l.Credentials(ctx, args[0], client, dir)
			if err == nil {
				fmt.Println("Credentials written:", hint)
			}
			return err
		}),
	}
	cmd.Flags().StringArrayVar(&client.Nodes, "node", nil, "node to allow; repeatable; \"*\": all nodes, including future ones")
	cmd.Flags().StringVar(&dir, "dir", "", "directory for the files; created if missing")
	return cmd
}

func (c *cli) execCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exec POD|NODE|outside -- COMMAND [ARGUMENT...]",
		Short: "Run a command in the network namespace of a pod, a node or the outside host",
		Args:  cobra.MinimumNArgs(2),
		RunE: c.withAnyLab(func(_ context.Context, l *lab.Lab, args []string) error {
			st, err := l.State()
			if err != nil {
				return err
			}
			where, err := st.Endpoint(args[0])
			if err != nil {
				return err
			}
			command := args[1:]
			if command[0] == "--" {
				command = command[1:]
			}
			if len(command) == 0 || command[0] == "" {
				return ctl.Misused(errors.New("missing command: usage: contiv-lab exec POD|NODE|outside -- COMMAND"))
			}
			program, err := exec.LookPath(command[0])
			if err != nil {
				return fmt.Errorf("%q: %w: install it on this machine", command[0], errors.Unwrap(err))
			}
			return lab.InNetns(lab.NetnsPath(where.Netns), func() error {
				return syscall.Exec(program, command, os.Environ())
			})
		}),
	}
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func (c *cli) ctlCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "ctl [ARGUMENT...]",
		Short:              "Run contivctl for the agents of the lab",
		DisableFlagParsing: true,
		RunE: c.withAnyLab(func(_ context.Context, l *lab.Lab, args []string) error {
			if len(args) > 0 && args[0] == "--" {
				args = args[1:]
			}
			st, err := l.State()
			if err != nil {
				return err
			}
			kubeconfig := l.Path("kubeconfig") // a missing file, so that "ctl uninstall" does not affect the cluster of the user's kubectl
			if st.Bare {
				kubeconfig = filepath.Join(e2e.Root, l.Name(), "kubeconfig")
			}
			if err := errors.Join(os.Setenv(target.ConfigVariable, l.CtlConfig()), os.Setenv("KUBECONFIG", kubeconfig)); err != nil {
				return err
			}
			program := l.Program("contivctl")
			if !viaEtcd(args) {
				return syscall.Exec(program, append([]string{program}, args...), os.Environ())
			}
			netns, flags, err := l.EtcdFlags()
			if err != nil {
				return err
			}
			return lab.InNetns(netns, func() error {
				return syscall.Exec(program, slices.Concat([]string{program}, flags, args), os.Environ())
			})
		}),
	}
}

// viaEtcd reports whether contivctl writes to etcd instead of calling an agent.
func viaEtcd(args []string) bool {
	via := slices.Index(args, "--via")
	return slices.Contains(args, "--via=etcd") || via >= 0 && slices.Contains(args[via:min(via+2, len(args))], "etcd")
}

func (c *cli) matrixCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "matrix [POD|NODE|outside]...",
		Short: "Measure connectivity with real packets, and fail if a path does not work",
		RunE: c.withLab(func(ctx context.Context, l *lab.Lab, args []string) error {
			st, err := l.State()
			if err != nil {
				return err
			}
			measure := []func(context.Context, ...string) (*lab.Matrix, error){l.Matrix}
			if st.DualStack {
				measure = append(measure, l.MatrixIPv6)
			}
			works := true
			for i, matrix := range measure {
				m, err := matrix(ctx, args...)
				if err != nil {
					return err
				}
				if i > 0 {
					fmt.Print("\nOver IPv6:\n\n")
				}
				if err := m.Write(os.Stdout); err != nil {
					return err
				}
				works = works && m.Err() == nil
			}
			if !works {
				return errors.New("not all paths work")
			}
			return nil
		}),
	}
}
