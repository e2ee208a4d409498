package main

import (
	"errors"

	"github.com/contiv/contiv/internal/agent/localstore"
	"github.com/contiv/contiv/internal/agent/uninstall"
	"github.com/contiv/contiv/internal/lib/terminal"
	"github.com/spf13/cobra"
)

func uninstallCommand(o *options) *cobra.Command {
	var yes, dryRun bool
	c := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove Contiv from this node",
		Long: `Remove the interfaces, addresses, routes, neighbours, iptables chains and nftables tables that the agent
of this node created, and nothing else. Running pods lose their network. Stop the agent first, and use its
--bolt, which lists the pods. With --vswitch vpp, the configuration of a running VPP is removed. At a
terminal, the command lists the changes and asks for confirmation first.

Not removed are: sysctls (net.ipv4.ip_forward, net.ipv6.conf.all.forwarding, and accept_ra of interfaces),
because other software may rely on them; the file of --bolt, so that a reinstalled agent knows the running
pods, and the history next to it; and the ID of the node in etcd, which is deleted with the Node object.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := o.start(c)
			if err != nil {
				return err
			}
			local, err := localstore.Open(c.Context(), o.bolt, o.runDir, log)
			if err != nil {
				return err
			}
			defer local.Close()
			target := o.southbound(log)
			ask := !yes && terminal.Is(c.InOrStdin()) // without a terminal, as in contivctl's pod, it does not ask
			if dryRun || ask {
				if err := uninstall.Preview(c.Context(), c.OutOrStdout(), target, local); err != nil || dryRun {
					return err
				}
				if !terminal.Confirmed(c.InOrStdin(), c.OutOrStdout(), "Remove all of this?") {
					return errors.New("nothing was removed")
				}
			}
			veths, err := uninstall.ConfiguredVETHs(c.Context(), o.nodeName, local, o.grpcBolt, log)
			if err != nil {
				return err
			}
			return uninstall.Run(c.Context(), target, local, veths...)
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print the objects to remove and the pods that would lose their network, without removing anything")
	c.MarkFlagsMutuallyExclusive("yes", "dry-run")
	return c
}
