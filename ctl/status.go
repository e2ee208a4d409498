package ctl

import (
	"errors"
	"io"

	"github.com/spf13/cobra"
)

func asStatus(err error, target **statusError) bool { return errors.As(err, target) }

func (c *cli) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Whether the agents are ready, and if not, why",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := c.limited(cmd)
			defer cancel()
			agents, err := c.targets.selected(ctx, nil)
			if err != nil {
				return err
			}
			probes := ask(ctx, agents, probe)
			err = show(c, probes, func(io.Writer, []answer[Probe]) {})
			if c.format == asTable {
				writeProbes(c.out, probes)
			}
			if err != nil {
				return err
			}
			for _, p := range probes {
				if p.value.State != ready {
					return ErrReported // the table says it
				}
			}
			return nil
		},
	}
}

func writeProbes(w io.Writer, probes []answer[Probe]) {
	t := newTable("NODE", "AGENT", "SINCE", "VERSION", "URL", "PROBLEM")
	for _, p := range probes {
		state := p.value.State
		if p.err != nil {
			state = unreachable
		}
		t.add(p.agent.Name, state, stamp(p.value.StartTime), p.value.Version, p.agent.URL, p.value.Problem)
	}
	t.write(w)
}
