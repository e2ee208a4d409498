package ctl

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// vppCommandURL takes {"vppclicommand": COMMAND} and returns VPP's output.
const vppCommandURL = "/vpp/command"

func (c *cli) vppcliCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "vppcli NODE COMMAND...",
		Short: "Run a VPP command on a node",
		Long: `Run a command of VPP's debug CLI on a node, as vppctl does, through the node's agent. The agent accepts
it on its socket, and over TLS from clients with a certificate. The agent may revert changes made this way.`,
		Example: "  contivctl vppcli node1 show interface",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.limited(cmd)
			defer cancel()
			agents, err := c.targets.Selected(ctx, args[:1])
			if err != nil {
				return fmt.Errorf("%w; usage: %s", err, cmd.UseLine())
			}
			var said string
			request := map[string]string{"vppclicommand": strings.Join(args[1:], " ")}
			if err := agents[0].Post(ctx, vppCommandURL, nil, request, &said); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.TrimRight(strings.ReplaceAll(said, "\r\n", "\n"), "\n"))
			return err
		},
	}
	cmd.Flags().SetInterspersed(false) // further flags are VPP's
	return cmd
}
