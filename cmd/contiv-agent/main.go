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

	"github.com/contiv/contiv/logline/loglevel"
	"github.com/contiv/contiv/version"
	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	syscall.Umask(0o077)
	roomyHeap()
	spareProcessors()

	var o options
	c := &cobra.Command{
		Use:   "contiv-agent",
		Short: "Make this node's vswitch match the cluster's configuration",
		Long: `Runs the agent of a node. Every flag can be given in the environment, too:
CONTIV_AGENT_ and its name in capitals, e.g. CONTIV_AGENT_NODE_NAME.`,
		Version:       version.Version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := o.start(c)
			if err != nil {
				return err
			}
			if o.standalone {
				return runStandalone(c.Context(), o, log)
			}
			return run(c.Context(), o, log)
		},
	}
	o.register(c.PersistentFlags())
	c.AddCommand(uninstallCommand(&o), checkConfigCommand(&o))
	if err := c.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "contiv-agent:", err)
		os.Exit(1)
	}
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
