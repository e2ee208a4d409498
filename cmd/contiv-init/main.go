// Command contiv-init runs VPP and the agent of a node as one unit: the main process of
// a container, or a service of the machine.
//
//	contiv-init ──writes──> startup.conf
//	     ├──starts, again and again──> vpp            ─┐ log lines, with the name of
//	     └──starts, again and again──> contiv-agent   ─┘ who said them
//
// Each of the two may end and come back without the other one: VPP forwards without the
// agent, and the agent finds VPP again. See docs/adr/005 for why.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/contiv/contiv/version"
	"github.com/spf13/cobra"
)

// Exit codes, beside 0 after an orderly end.
const (
	exitFailed = 1 // it could not start, or something had to be killed
	exitUsage  = 2 // an option or a file is wrong; nothing was started
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	syscall.Umask(0o077)
	err := newCommand(args).ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "contiv-init:", err)
	if errors.As(err, new(failedError)) {
		return exitFailed
	}
	return exitUsage
}

// failedError is an error for which no option is to blame.
type failedError struct{ error }

func (e failedError) Unwrap() error { return e.error }

func newCommand(args []string) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "contiv-init [flags] [-- AGENT-FLAG...]",
		Short: "Run VPP and the agent of this node",
		Long: `Starts VPP and the agent, and starts again whichever of them ends. SIGTERM and SIGINT end
the agent, then VPP; SIGUSR1 restarts the agent alone, SIGUSR2 VPP alone. What follows -- are
flags of the agent, which gets the environment as well.

VPP's start-up configuration is --vpp-config, as it is, if that file exists; else it is
written from the options in --vpp-options.`,
		Version:       version.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(c *cobra.Command, agentFlags []string) error {
			u, err := o.unit(agentFlags)
			if err != nil {
				return err
			}
			return u.run(c.Context())
		},
	}
	o.register(c.Flags())
	c.SetArgs(args)
	return c
}
