package northbound

import (
	"time"

	"github.com/contiv/contiv/api/ligato/configurator"
	"github.com/contiv/contiv/api/ligato/vpp"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

type statsPoller struct {
	configurator.UnsafeStatsPollerServiceServer
	*Ligato
}

// PollStats sends, at each poll, a message for each interface with counters. Polls are numbered
// from 1. A period of 0 means a single poll.
func (s *statsPoller) PollStats(r *configurator.PollStatsRequest, stream grpc.ServerStreamingServer[configurator.PollStatsResponse]) error {
	if r.GetPeriodSec() == 0 && r.GetNumPolls() > 1 {
		return refused("num_polls is %d but period_sec is not set: set it to the seconds between polls", r.GetNumPolls())
	}
	ctx := stream.Context()
	period := time.Duration(r.GetPeriodSec()) * time.Second
	for poll := uint32(1); ; poll++ {
		next := time.After(period)
		states, err := s.States(ctx)
		if err != nil {
			return status.Errorf(codes.Unavailable, "cannot read counters: %v", err)
		}
		for _, state := range states {
			if state.GetStatistics() == nil {
				continue
			}
			stats := &vpp.Stats{Interface: statsOf(state)}
			err := stream.Send(&configurator.PollStatsResponse{
				PollSeq: poll, Stats: &configurator.Stats{Stats: &configurator.Stats_VppStats{VppStats: stats}},
			})
			if err != nil {
				return err
			}
		}
		if period == 0 || poll == r.GetNumPolls() {
			return nil
		}
		select {
		case <-next:
		case <-s.ended:
			return errEnds
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

func statsOf(state *vpp_interfaces.InterfaceState) *vpp_interfaces.InterfaceStats {
	s := state.GetStatistics()
	return &vpp_interfaces.InterfaceStats{
		Name:    state.GetName(),
		Rx:      &vpp_interfaces.InterfaceStats_CombinedCounter{Packets: s.GetInPackets(), Bytes: s.GetInBytes()},
		Tx:      &vpp_interfaces.InterfaceStats_CombinedCounter{Packets: s.GetOutPackets(), Bytes: s.GetOutBytes()},
		RxError: s.GetInErrorPackets(), TxError: s.GetOutErrorPackets(), RxNoBuf: s.GetInNobufPackets(), RxMiss: s.GetInMissPackets(),
		Drops: s.GetDropPackets(), Punts: s.GetPuntPackets(), Ip4: s.GetIpv4Packets(), Ip6: s.GetIpv6Packets(),
	}
}
