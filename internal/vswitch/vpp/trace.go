package vpp

import (
	"context"
	"log/slog"

	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"

	"go.fd.io/govpp/binapi/vlib"
)

// maxTraced is the number of traced packets per input node.
const maxTraced = "100000"

// tracedInputs lists the input nodes of VPP's graph. Nodes of missing plugins do not exist.
var tracedInputs = []string{"dpdk-input", "virtio-input", "af-packet-input", "af_xdp-input"}

// tracer enables traces in VPP, which show trace prints.
type tracer struct {
	subsystem.Base
	log *slog.Logger
}

// Opened starts the traces. A failure does not fail the connection.
func (v *tracer) Opened(ctx context.Context, l *session.Link) error {
	for _, input := range tracedInputs {
		var reply vlib.CliInbandReply
		if err := l.Call(ctx, &vlib.CliInband{Cmd: "trace add " + input + " " + maxTraced}, &reply); err != nil {
			v.log.Info("Packet tracing in VPP failed", "input", input, "error", err, "answer", reply.Reply)
		}
	}
	return nil
}
