// Command contiv-calico-routes programs routes to the pods of a Calico cluster that has no BGP.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/contiv/contiv/internal/lib/version"
	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	syscall.Umask(0o077)
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "contiv-calico-routes:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "contiv-calico-routes [TREE UPLINK ADDRESS LENGTH [PROTOCOL HOST PORT USER PASSWORD]]",
		Short: "Program routes to the pods of a Calico cluster that has no BGP",
		Long: `Program routes to the pods of a Calico cluster that has no BGP. contiv-calico-routes runs on each node,
reads from Calico's datastore which node has which block of addresses, and programs routes to the blocks
of the other nodes.

  TREE      Calico's blocks in etcd: calico/ipam/v2/assignment/ipv4/block, or
            calico/ipam/v2/assignment for IPv4 and IPv6
  UPLINK    interface to the other nodes: its index or its name
  ADDRESS   address of the uplink, published to other nodes
  LENGTH    prefix length of its subnet
  PROTOCOL HOST PORT USER PASSWORD
            of etcd (API version 3); default: http localhost 4000, no user

Every argument can also be set as a flag, and every flag in the environment (CONTIV_CALICO_ROUTES_
followed by its name in capitals) or in the file of --config. Flags override arguments, which override
the environment, which overrides the file.`,
		Example: `  contiv-calico-routes calico/ipam/v2/assignment/ipv4/block 1 192.168.1.10 24
  contiv-calico-routes --uplink eth1 --address 192.168.1.10/24,2001:db8::10/64 --etcd-endpoints http://10.0.0.1:2379`,
		Version:       version.Version,
		Args:          cobra.MaximumNArgs(9),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.complete(c.Flags(), args); err != nil {
				return err
			}
			return o.run(c.Context(), c.OutOrStdout())
		},
	}
	o.register(c.Flags())
	return c
}
