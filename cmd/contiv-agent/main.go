// Command contiv-agent runs on every node: it computes the network that the node
// should have and makes the vswitch match it.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/contiv/contiv/internal/lib/logline/loglevel"
	"github.com/contiv/contiv/internal/lib/tuning"
	"github.com/contiv/contiv/internal/lib/version"
	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	syscall.Umask(0o077)
	tuning.CollectRarely()
	tuning.RaiseProcessors()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "contiv-agent:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "contiv-agent",
		Short: "Run the Contiv agent of a node",
		Long: `Run the Contiv agent of a node, which configures the vswitch for the pods, services and policies of the
cluster.

Every flag can also be set in the environment, as CONTIV_AGENT_ followed by its name in capitals, such as
CONTIV_AGENT_NODE_NAME.`,
		Version:       version.Version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := o.start(c)
			if err != nil {
				return err
			}
			return run(c.Context(), o, log)
		},
	}
	o.register(c.PersistentFlags())
	c.AddCommand(uninstallCommand(&o), checkConfigCommand(&o))
	return c
}

// run runs the agent until ctx ends. It returns an error that requires a restart of the agent.
func run(ctx context.Context, o options, log *slog.Logger) error {
	open := opener(openClusterAgent)
	if o.standalone {
		open = openStandaloneAgent
	}
	a, err := open(ctx, o, log)
	if err != nil {
		return err
	}
	defer a.close()
	return a.run(ctx)
}

// start completes the options and returns the log.
func (o *options) start(c *cobra.Command) (*slog.Logger, error) {
	if err := o.complete(c.Flags()); err != nil {
		return nil, err
	}
	log := loglevel.New(os.Stderr, o.logLevel).With("node", o.nodeName)
	slog.SetDefault(log)
	return log, nil
}
