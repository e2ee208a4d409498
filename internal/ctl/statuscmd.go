package ctl

import (
	"errors"
	"time"

	"github.com/contiv/contiv/internal/agent/health"
	"github.com/contiv/contiv/internal/ctl/status"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/spf13/cobra"
)

func (c *cli) statusCommand() *cobra.Command {
	return listing(&cobra.Command{
		Use:   "status [NODE...]",
		Short: "Show the health of the nodes, with reasons",
		Long: "Show whether each node is healthy, degraded (working with a problem) or broken (its agent does not\n" +
			"answer or is not ready), and the reasons, such as failed values, nodes that cannot be reached over the\n" +
			"overlay, repeated changes by other software, etcd out of reach, a full disk, or different versions.\n" +
			"Problems of KSR are shown once for the cluster. A value that the vswitch does not implement is shown\n" +
			"as a note; the node stays healthy.\n\n" +
			"The exit code is 0 if everything is healthy, 1 if a node or the cluster is degraded, 2 if a node is\n" +
			"broken, and 3 if the command line has a mistake or no agents were found.",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.limited(cmd)
			defer cancel()
			agents, err := c.targets.Selected(ctx, args)
			if err != nil {
				return Misused(err) // no verdict
			}
			return c.showStatus(target.Ask(ctx, agents, status.Ask))
		},
	})
}

// The error carries the exit code.
func (c *cli) showStatus(probes []target.Answer[status.Probe]) error {
	status.Compare(probes, c.from == "")
	err := show(c, probes, func(printer, []answer[status.Probe]) {})
	if c.format == asTable {
		now := c.now()
		if c.watching {
			now = time.Time{}
		}
		status.Write(c.printer(), probes, now)
	}
	if err != nil && !errors.Is(err, ErrReported) {
		return err
	}
	switch status.Worst(probes) {
	case health.Broken:
		return &exitError{ErrReported, exitBroken} // the table has the reason
	case health.Degraded:
		return ErrReported
	}
	return nil
}
