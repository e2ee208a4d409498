package interfaces

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	"go.fd.io/govpp/binapi/af_packet"
)

// afPacketsPerThread is the number of AF_PACKET interfaces that a thread of VPP 25.10 can serve:
// with 16 ready file descriptors, it only polls for more, endlessly (vlib_file_poll).
const afPacketsPerThread = 15

// Warnings lists possible future failures of this VPP.
func (v *Interfaces) Warnings(ctx context.Context) ([]string, error) {
	queues := startReadingRxQueues(ctx, v.vpp)
	sockets, err := session.ByKey(ctx, session.StartDump[af_packet.AfPacketDetails](ctx, v.vpp, afPacketModule, &af_packet.AfPacketDump{}),
		func(d *af_packet.AfPacketDetails) ownership.Index { return d.SwIfIndex })
	if err != nil {
		return nil, err
	}
	all, err := queues.Wait(ctx)
	if err != nil {
		return nil, err
	}
	perThread := map[uint32]int{}
	for _, q := range all {
		if sockets[q.SwIfIndex] != nil {
			perThread[q.WorkerID]++
		}
	}
	var warnings []string
	for _, thread := range slices.Sorted(maps.Keys(perThread)) {
		if n := perThread[thread]; n > afPacketsPerThread {
			warnings = append(warnings, fmt.Sprintf("thread %d of VPP serves %d AF_PACKET interfaces: VPP 25.10 hangs when 16 of them have packets at the same time; "+
				"run at most %d per thread, or attach pods by TAPs (useTAPInterfaces, needs /dev/vhost-net)", thread, n, afPacketsPerThread))
		}
	}
	return warnings, nil
}
