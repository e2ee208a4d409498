package main

import (
	"fmt"
	"os"
	"time"

	"github.com/contiv/contiv/ctl"
	"github.com/contiv/contiv/test/demo"
	"github.com/spf13/cobra"
)

func (c *cli) demoCommand() *cobra.Command {
	var keep bool
	var pods, nodes int
	var upLimit time.Duration
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "measure the main features in a lab; fail if one fails",
		Long:  `Creates a lab (default name "demo"), measures each promised feature in it, and removes it.`,
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
	cmd.Flags().IntVar(&nodes, "nodes", 2, "how many nodes")
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the lab running")
	cmd.Flags().IntVar(&pods, "batch", 20, "how many pods to measure CNI ADD with")
	cmd.Flags().DurationVar(&upLimit, "up-limit", demo.DefaultUpLimit, "how long bringing the lab up may take; emulated machines need more")
	c.binDirFlag(cmd)
	return cmd
}
