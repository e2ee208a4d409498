package vpp

import (
	"context"
	"log/slog"

	"github.com/contiv/contiv/vswitch/vpp/session"
	"github.com/contiv/contiv/vswitch/vpp/subsystem"

	"go.fd.io/govpp/binapi/vlib"
)

// maxTraced is how many packets of each input are traced.
const maxTraced = "100000"

// tracedInputs are the nodes of VPP's graph where packets come from. Those of plugins
// that are not loaded do not exist.
var tracedInputs = []string{"dpdk-input", "virtio-input", "af-packet-input", "af_xdp-input"}

// tracer makes a VPP trace the packets that come in: show trace prints their ways.
type tracer struct {
	subsystem.Base
	log *slog.Logger
}

// Opened starts the traces. A failure is no reason to be without the vswitch.
func (v *tracer) Opened(ctx context.Context, l *session.Link) error {
	for _, input := range tracedInputs {
		var reply vlib.CliInbandReply
		if err := l.Call(ctx, &vlib.CliInband{Cmd: "trace add " + input + " " + maxTraced}, &reply); err != nil {
			v.log.Info("VPP does not trace packets", "input", input, "error", err, "answer", reply.Reply)
		}
	}
	return nil
}
