// Command contiv-init runs VPP and the agent of a node as one unit: the main process of a
// container, or a service of the machine.
//
//	contiv-init ──writes──> startup.conf
//	     ├──starts and restarts──> vpp            ─┐ log lines, prefixed with
//	     └──starts and restarts──> contiv-agent   ─┘ the program's name
//
// Each can restart without the other: VPP forwards without the agent, and a restarted agent
// reconnects to VPP. docs/design/adr/005 gives the reasons.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/contiv/contiv/internal/lib/version"
	"github.com/spf13/cobra"
)

// Exit codes other than 0, which is an orderly end.
const (
	exitFailed = 1 // a start failed, or a process was killed
	exitUsage  = 2 // an option or a file is invalid; nothing was started
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

// failedError is an error not caused by an option.
type failedError struct{ error }

func (e failedError) Unwrap() error { return e.error }

func newCommand(args []string) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "contiv-init [flags] [-- AGENT-FLAG...]",
		Short: "Run VPP and the agent of this node",
		Long: `Run VPP and the agent of this node, and restart either of them when it exits. SIGTERM and SIGINT stop
the agent, then VPP. SIGUSR1 restarts only the agent, SIGUSR2 only VPP. Arguments after -- are flags of
the agent, which also inherits the environment.

VPP's start-up configuration is the file of --vpp-config if it exists, and is otherwise generated from
--vpp-options.`,
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
