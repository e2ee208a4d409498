package ctl

import (
	"errors"
	"time"

	"github.com/contiv/contiv/ctl/status"
	"github.com/contiv/contiv/ctl/target"
	"github.com/contiv/contiv/health"
	"github.com/spf13/cobra"
)

func (c *cli) statusCommand() *cobra.Command {
	return listing(&cobra.Command{
		Use:   "status [NODE...]",
		Short: "Whether the nodes are healthy, degraded or broken, and why",
		Long: "Says of each node whether it is healthy, degraded (it works, but something is not as it should be) or\n" +
			"broken (its agent does not answer, or is not ready), and why: values that failed, cannot be, or wait for\n" +
			"long; other nodes that do not answer over the overlay, or not to large packets; what others change again and\n" +
			"again; the lack of etcd; warnings of the vswitch; a full disk; versions that differ. What is wrong with KSR, which\n" +
			"brings the objects of Kubernetes, is said once for the cluster. What a vswitch cannot do of what is asked of it is\n" +
			"noted; the node is healthy.\n\n" +
			"The exit code is 0 if all is healthy, 1 if a node or the cluster is degraded, 2 if one is broken, 3 if\n" +
			"the command line has a mistake, or it is not known which agents there are.",
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
