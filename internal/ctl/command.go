package ctl

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/ctl/flags"
	"github.com/contiv/contiv/internal/ctl/kube"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/ctl/text"
	"github.com/contiv/contiv/internal/lib/config"
	"github.com/contiv/contiv/internal/lib/version"
	"github.com/spf13/cobra"
)

// cli holds the state shared by all commands.
type cli struct {
	name        string
	out, errOut io.Writer
	width       int  // of tables
	fit         bool // nothing may be wider
	targets     target.Options
	format      format
	full, wide  bool
	colour      bool // where a terminal shows it
	// progress replaces the progress line; nil if the output is no terminal.
	progress func(line string)
	// from is the file of a report that is read instead of asking agents.
	from string
	// now returns the reference time of commands: the report's, if one is read.
	now func() time.Time
	// watching: -w prints the output when it changes, ignoring the age of records.
	watching bool
	// poll is the polling interval of -f.
	poll time.Duration
}

// Command returns the command line under the given program name. The caller prints errors of
// Execute except ErrReported.
func Command(name string, out, errOut io.Writer) *cobra.Command {
	width, fit := text.Width(out)
	colour, progress := text.Colours(out), text.Progress(errOut)
	out, errOut = text.Plain(out), text.Messages(errOut)
	c := &cli{name: name, width: width, fit: fit, colour: colour, progress: progress, out: out, errOut: errOut, format: asTable, poll: 500 * time.Millisecond, now: time.Now}
	root := &cobra.Command{
		Use:   name,
		Short: "Show and change the state of Contiv on a cluster",
		Long: "Show and change the state of Contiv on the nodes of a cluster. All agents are queried at once.\n\n" +
			"Give the agents with --agent NAME=URL, or in the file of --config or " + target.ConfigVariable + ":\n\n" +
			"  agents:\n" +
			"    node1: unix:///var/run/contiv/agent.sock\n" +
			"    node2: https://192.168.16.2:9999\n" +
			"  etcdConfig: /etc/contiv/etcd.conf   # etcd client configuration, to find other nodes\n\n" +
			"The default is the agent on " + target.DefaultAgent + ".\n\n" +
			"The exit code is 1 if an agent did not answer; the answers of the other agents are still shown.\n" +
			"It is 3 for a mistake on the command line, such as an unknown name.",
		Version:      version.Version,
		SilenceUsage: true,
		// Flags before a command are the root's: "diff" has a separate --from.
		TraverseChildren: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return Misused(unknownCommand(cmd, args[0]))
		},
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if slices.Contains([]string{cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}, cmd.Name()) {
				return nil // completes an unfinished command line
			}
			for _, check := range []func(*cobra.Command) error{flags.Check, checkConfiguring} {
				if err := check(cmd); err != nil {
					return err
				}
			}
			if c.from != "" {
				if err := c.openReport(c.from, cmd); err != nil {
					return err
				}
			}
			return Misused(c.checkFormat(cmd))
		},
	}
	root.SetOut(out)
	root.SetErr(errOut)
	f := root.PersistentFlags()
	f.StringVar(&c.targets.File, "config", os.Getenv(target.ConfigVariable), "configuration file with the agents' addresses (environment: "+target.ConfigVariable+")")
	f.StringArrayVar(&c.targets.Agents, "agent", nil, "NAME=URL of an agent, instead of the agents in --config; repeatable")
	f.StringSliceVar(&c.targets.EtcdEndpoints, "etcd-endpoints", nil, "URLs of etcd, from which the list of nodes is read")
	f.StringVar(&c.targets.EtcdConfig, "etcd-config", os.Getenv("ETCD_CONFIG"), "etcd client configuration, YAML, such as the file written by \"credentials\" (environment: ETCD_CONFIG)")
	f.StringVar(&c.targets.Kubeconfig, "kubeconfig", "", "kubeconfig file; its cluster's agents are reached through the API server (default: kubectl's, if this host has no agent)")
	f.StringVar(&c.targets.Context, "context", "", "context of the kubeconfig file (default: its current context)")
	c.targets.InCluster = kube.Agents
	f.StringVar(&c.targets.CAFile, "tls-ca-file", "", "certificate authorities of agents at https:// URLs and of etcd (PEM)")
	f.StringVar(&c.targets.CertFile, "tls-cert-file", "", "client certificate for agents and etcd (PEM)")
	f.StringVar(&c.targets.KeyFile, "tls-key-file", "", "private key of --tls-cert-file (PEM)")
	f.StringVar(&c.targets.Node, "node", "", "query the agent of this node only")
	f.StringVar(&c.from, "from", "", "file written by \"report\", to read instead of querying agents")
	f.DurationVar(&c.targets.Timeout, "timeout", 10*time.Second, "maximum time to wait for answers")
	f.BoolVar(&c.full, "full", false, "print long identifiers in full")
	f.VarP(&c.format, "output", "o", "table, wide, json, yaml, jsonpath=TEMPLATE or name; some commands accept fewer or further formats")
	root.AddCommand(
		c.nodesCommand(), c.nodeConfigCommand(), c.podsCommand(), c.ipamCommand(), c.interfacesCommand(), c.dropsCommand(), c.statusCommand(), c.whyCommand(),
		c.servicesCommand(),
		c.policiesCommand(), c.denialsCommand(),
		c.eventsCommand(), c.txnsCommand(), c.valuesCommand(), c.dumpCommand(), c.modelsCommand(),
		c.explainCommand(), c.timelineCommand(), c.diffCommand(), c.graphCommand(), c.planCommand(), c.resyncCommand(),
		c.configCommand(), c.vppcliCommand(), c.reportCommand(), c.checkConfigCommand(), c.versionCommand(),
	)
	for _, sub := range root.Commands() {
		if slices.Contains(watched, sub.Name()) {
			c.watchable(sub)
		}
	}
	c.complete(root)
	flags.Annotate(root)
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		flags.ShowOnlyHonoured(cmd)
		help(cmd, args)
	})
	return root
}

// unknownCommand suggests a similar command, or the one with a short name known from kubectl.
func unknownCommand(root *cobra.Command, word string) error {
	var names []string
	for _, sub := range root.Commands() {
		names = append(names, sub.Name())
	}
	wrong := fmt.Errorf("unknown command %q for %q", word, root.Name())
	meant := map[string]string{"svc": "services", "po": "pods", "no": "nodes", "ep": "services", "endpoints": "services", "netpol": "policies", "networkpolicies": "policies"}[word]
	if meant == "" {
		meant, _ = config.Nearest(word, names)
	}
	if meant == "" {
		return fmt.Errorf("%w: %s --help lists them", wrong, root.Name())
	}
	return fmt.Errorf("%w: did you mean %q?", wrong, meant)
}

// OutputVersion is the version of the JSON and YAML output. It changes when a field is renamed,
// removed or gets another meaning, but not when fields are added.
const OutputVersion = "v1"

// Version is the output of "version" in JSON and YAML.
type Version struct {
	Version string `json:"version"`
	Output  string `json:"output"`
}

func (c *cli) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of contivctl (\"status\" shows the agents' versions)",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if c.format != asTable {
				return c.format.encode(c.out, Version{version.Version, OutputVersion})
			}
			c.printer().Printf("%s version %s\n", c.name, version.Version)
			return nil
		},
	}
}

// limited returns a context with the command's timeout, which shows the user whose answers are
// pending.
func (c *cli) limited(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	return c.within(cmd, c.targets.Timeout)
}

// within is limited with a given timeout.
func (c *cli) within(cmd *cobra.Command, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.followed(cmd), timeout)
}

// each returns a context that limits each request to an agent, so that a silent agent takes no time
// from the others.
func (c *cli) each(cmd *cobra.Command) context.Context {
	return target.EachWithin(c.followed(cmd), c.targets.Timeout)
}

// followed returns a context that shows the user whose answers are pending.
func (c *cli) followed(cmd *cobra.Command) context.Context {
	ctx := cmd.Context()
	if c.progress != nil {
		ctx = target.WithProgress(ctx, func(waiting []string) { c.progress(waitingText(waiting)) })
	}
	return target.WaitOnce(ctx)
}

func waitingText(nodes []string) string {
	const most = 5
	switch {
	case len(nodes) == 0:
		return ""
	case len(nodes) > most:
		return fmt.Sprintf("waiting for %s and %d more", strings.Join(nodes[:most], ", "), len(nodes)-most)
	}
	return "waiting for " + strings.Join(nodes, ", ")
}

// perNode returns a command that asks one or all agents for a report.
func perNode[T any](c *cli, cmd *cobra.Command, path string, table func(p printer, good []answer[T])) *cobra.Command {
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, cancel := c.limited(cmd)
		defer cancel()
		agents, err := c.targets.Selected(ctx, args)
		if err != nil {
			return err
		}
		return show(c, target.GetAll[T](ctx, agents, path, nil), table)
	}
	return cmd
}

// stamp shows a time in local time.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("01-02 15:04:05.000")
}

// took formats a duration with about three digits.
func took(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}
