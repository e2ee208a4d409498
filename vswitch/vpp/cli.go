package vpp

import (
	"context"
	"fmt"

	"go.fd.io/govpp/binapi/vlib"
)

var cliModule = newModule("", "command line", &vlib.CliInband{}, &vlib.CliInbandReply{})

// CLI runs a command of VPP's own command line, as vppctl does, and returns what it
// prints. VPP says what is wrong with a command in that text, too.
func (v *VSwitch) CLI(ctx context.Context, command string) (string, error) {
	var reply vlib.CliInbandReply
	if err := v.call(ctx, cliModule, &vlib.CliInband{Cmd: command}, &reply); err != nil {
		return reply.Reply, fmt.Errorf("running %q: %w", command, err)
	}
	return reply.Reply, nil
}
