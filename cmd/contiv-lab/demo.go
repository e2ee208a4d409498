package main

import (
	"os"

	"github.com/contiv/contiv/test/demo"
	"github.com/spf13/cobra"
)

func (c *cli) demoCommand() *cobra.Command {
	var keep bool
	var pods int
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "show the main job, each item measured; fails if an item does",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.guarded(func() error {
				return demo.Run(cmd.Context(), os.Stdout, demo.Options{Lab: c.opts, Keep: keep, BatchPods: pods})
			})
		},
	}
	cmd.Flags().StringVar(&c.opts.Name, "name", "demo", "name of the lab")
	cmd.Flags().IntVar(&c.opts.Nodes, "nodes", 2, "how many nodes")
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the lab running")
	cmd.Flags().IntVar(&pods, "batch", 20, "how many pods to measure CNI ADD with")
	c.binDirFlag(cmd)
	return cmd
}
