package main

import (
	"fmt"
	"os"
	"time"

	"github.com/contiv/contiv/internal/ctl"
	"github.com/contiv/contiv/test/demo"
	"github.com/spf13/cobra"
)

func (c *cli) demoCommand() *cobra.Command {
	var keep bool
	var pods, nodes int
	var upLimit time.Duration
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Measure the main features in a lab, and fail if one fails",
		Long:  `Create a lab (default name "demo"), measure the documented features in it, and remove it.`,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// The default is a separate lab, so that the demo leaves the user's lab alone.
			if !cmd.Flags().Changed("name") && !cmd.Root().PersistentFlags().Changed("name") {
				c.opts.Name = "demo"
			}
			c.opts.Nodes = nodes
			if err := c.checkNodes(); err != nil {
				return err
			}
			if pods < 1 {
				return ctl.Misused(fmt.Errorf("--batch %d: measure at least one pod", pods))
			}
			return c.guarded(func() error {
				return demo.Run(cmd.Context(), os.Stdout, demo.Options{Lab: c.opts, Keep: keep, BatchPods: pods, UpLimit: upLimit, Command: os.Args[0]})
			})
		},
	}
	cmd.Flags().IntVar(&nodes, "nodes", 2, "number of nodes")
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the lab running afterwards")
	cmd.Flags().IntVar(&pods, "batch", 20, "number of pods for the measurement of CNI ADD")
	cmd.Flags().DurationVar(&upLimit, "up-limit", demo.DefaultUpLimit, "maximum time for starting the lab; emulated machines need more")
	c.binDirFlag(cmd)
	return cmd
}
