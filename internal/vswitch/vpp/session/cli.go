package session

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.fd.io/govpp/binapi/vlib"

	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
)

var CliModule = NewModule("", "command line", &vlib.CliInband{}, &vlib.CliInbandReply{})

// CLI runs a VPP CLI command, like vppctl, and returns its output. A failed command gives an error
// with VPP's message.
func (s *Session) CLI(ctx context.Context, command string) (string, error) {
	var reply vlib.CliInbandReply
	err := s.Call(ctx, CliModule, &vlib.CliInband{Cmd: command}, &reply)
	var refused *vppapi.ReplyError
	switch says := strings.TrimSpace(reply.Reply); {
	case errors.As(err, &refused) && says != "":
		return reply.Reply, fmt.Errorf("VPP's answer to %q: %s", command, says)
	case err != nil:
		return reply.Reply, fmt.Errorf("running %q: %w", command, err)
	}
	return reply.Reply, nil
}
