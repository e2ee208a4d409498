// contiv-lab creates and operates Contiv clusters with network namespaces of this machine as
// nodes. Package test/lab describes how.
//
//	up ─> (apply, pod, node, exec, matrix, ctl, etcd, credentials, status)* ─> down
//	demo = up, all that the documentation promises, down
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/contiv/contiv/internal/ctl"
	"github.com/contiv/contiv/internal/ctl/text"
	"github.com/contiv/contiv/internal/lib/config"
	"github.com/contiv/contiv/internal/lib/version"
	"github.com/contiv/contiv/test/lab"
	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := execute(ctx, newCommand())
	stop()
	if err != nil {
		fmt.Fprintln(text.Messages(os.Stderr), "contiv-lab:", err)
		os.Exit(ctl.ExitCode(err))
	}
}

// execute runs the command line. An unknown name is a usage error, as in contivctl.
func execute(ctx context.Context, root *cobra.Command) error {
	err := ctl.Execute(ctx, root)
	var name lab.NameError
	if errors.As(err, &name) || errors.Is(err, lab.ErrNoLab) {
		return ctl.Misused(err)
	}
	return err
}

type cli struct {
	opts lab.Options
	// began is the start time, for the elapsed time in progress lines.
	began time.Time
}

func newCommand() *cobra.Command {
	c := &cli{began: time.Now()}
	root := &cobra.Command{
		Use:   "contiv-lab",
		Short: "Create and operate Contiv clusters made of network namespaces",
		Long: `Create and operate Contiv clusters on this machine. Nodes and pods are network namespaces, with the real
contiv-agent, KSR and etcd.`,
		Example: `  contiv-lab up                               # two nodes; --nodes 3, --vswitch vpp, --kubernetes
  contiv-lab pod add web client               # spread over the nodes
  contiv-lab exec client -- ping -c1 10.1.1.2
  contiv-lab apply -f service.yaml            # services, policies, pods
  contiv-lab matrix                           # measured connectivity
  contiv-lab ctl why client web               # contivctl for the lab's agents
  contiv-lab down
  contiv-lab --name other up                  # another lab`,
		Version:       version.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		// Lets options of the lab precede "ctl"; later options belong to contivctl.
		TraverseChildren: true,
	}
	flags := root.PersistentFlags()
	flags.StringVar(&c.opts.Name, "name", lab.DefaultName, "name of the lab")
	flags.StringVar(&c.opts.Root, "root", lab.Root, "directory of all labs")
	quiet := flags.BoolP("quiet", "q", false, "do not show progress")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if c.opts.Name == "" {
			return ctl.Misused(fmt.Errorf("--name is empty: use the name of a lab, or omit --name for %q", lab.DefaultName))
		}
		if !*quiet {
			c.opts.Progress = c.progress
		}
		return nil
	}
	root.AddCommand(
		c.upCommand(), c.downCommand(), c.listCommand(), c.statusCommand(),
		c.applyCommand(), c.deleteCommand(), c.podCommand(), c.nodeCommand(), c.etcdCommand(), c.credentialsCommand(),
		c.execCommand(), c.ctlCommand(), c.matrixCommand(), c.demoCommand(), c.guardCommand(), c.forwardCommand(),
	)
	for _, command := range append(root.Commands(), root) {
		if command.HasSubCommands() {
			command.Args, command.RunE = cobra.ArbitraryArgs, needsCommand
		}
	}
	return root
}

// needsCommand is the RunE of commands that only have subcommands.
func needsCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var names []string
	for _, of := range cmd.Commands() {
		if !of.Hidden {
			names = append(names, append(of.Aliases, of.Name())...)
		}
	}
	if near, ok := config.Nearest(args[0], names); ok {
		return ctl.Misused(fmt.Errorf("unknown command %q of %s: did you mean %s?", args[0], cmd.CommandPath(), near))
	}
	return ctl.Misused(fmt.Errorf("unknown command %q: %s --help lists them", args[0], cmd.CommandPath()))
}

func (c *cli) progress(line string) {
	fmt.Fprintf(os.Stderr, "%7.2fs  %s\n", time.Since(c.began).Seconds(), line)
}

// say prints progress unless --quiet is set.
func (c *cli) say(line string) {
	if c.opts.Progress != nil {
		c.opts.Progress(line)
	}
}

// open opens the lab of the command.
func (c *cli) open() (*lab.Lab, error) { return lab.Open(c.opts) }

// checkNodes refuses invalid node counts, including 0, which the lab takes as the default.
func (c *cli) checkNodes() error {
	if c.opts.Nodes < 1 {
		return ctl.Misused(fmt.Errorf("--nodes %d: a lab needs at least one node", c.opts.Nodes))
	}
	return nil
}

// binDirFlag adds --bin-dir. By default the binaries are next to this one.
func (c *cli) binDirFlag(cmd *cobra.Command) {
	own, err := os.Executable()
	if err != nil {
		own = os.Args[0]
	}
	cmd.Flags().StringVar(&c.opts.BinDir, "bin-dir", filepath.Dir(own), "directory of Contiv's programs (default: the directory of contiv-lab)")
	cmd.Flags().Lookup("bin-dir").DefValue = ""
}

// guarded runs fn. If this process is killed, a guard removes the lab.
func (c *cli) guarded(fn func() error) error {
	own, err := os.Executable()
	if err != nil {
		return err
	}
	guard, err := lab.NewGuard(own, c.opts)
	if err != nil {
		return err
	}
	err = fn()
	return errors.Join(err, guard.Release())
}
