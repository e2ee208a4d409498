package northbound_test

import (
	"errors"
	"io"
	"testing"

	"github.com/contiv/contiv/api/ligato/configurator"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestPollStats(t *testing.T) {
	r := newRig(t)
	r.states = []*vpp_interfaces.InterfaceState{
		{Name: "a", Statistics: &vpp_interfaces.InterfaceState_Statistics{InPackets: 1, InBytes: 2, OutPackets: 3, OutBytes: 4, DropPackets: 5}},
		{Name: "tunnel"}, // without counters
		{Name: "b", Statistics: &vpp_interfaces.InterfaceState_Statistics{InErrorPackets: 6, OutErrorPackets: 7}},
	}
	poll := func(period, polls uint32) (seen []*configurator.PollStatsResponse, err error) {
		stream, err := r.stats.PollStats(t.Context(), &configurator.PollStatsRequest{PeriodSec: period, NumPolls: polls})
		r.ok(err)
		for {
			answer, err := stream.Recv()
			if err != nil {
				if errors.Is(err, io.EOF) {
					err = nil
				}
				return seen, err
			}
			seen = append(seen, answer)
		}
	}
	for _, once := range [][2]uint32{{0, 0}, {0, 1}, {1, 1}} {
		seen, err := poll(once[0], once[1])
		if err != nil || len(seen) != 2 {
			t.Fatalf("one poll, asked for as %v: %v, %v", once, seen, err)
		}
		a, b := seen[0].GetStats().GetVppStats().GetInterface(), seen[1].GetStats().GetVppStats().GetInterface()
		if seen[0].GetPollSeq() != 1 || a.GetName() != "a" || a.GetRx().GetPackets() != 1 || a.GetRx().GetBytes() != 2 ||
			a.GetTx().GetPackets() != 3 || a.GetTx().GetBytes() != 4 || a.GetDrops() != 5 || b.GetRxError() != 6 || b.GetTxError() != 7 {
			t.Errorf("poll %v", seen)
		}
	}
	if seen, err := poll(1, 2); err != nil || len(seen) != 4 || seen[3].GetPollSeq() != 2 {
		t.Errorf("two polls: %v, %v", seen, err)
	}
	if _, err := poll(0, 2); status.Code(err) != codes.InvalidArgument {
		t.Errorf("two polls without a period: %v", err)
	}
}

// An endless poll ends with the agent.
func TestPollStatsEndsWithTheAgent(t *testing.T) {
	r := newRig(t)
	r.states = []*vpp_interfaces.InterfaceState{{Name: "a", Statistics: &vpp_interfaces.InterfaceState_Statistics{}}}
	stream, err := r.stats.PollStats(t.Context(), &configurator.PollStatsRequest{PeriodSec: 3600})
	r.ok(err)
	_, err = stream.Recv()
	r.ok(err)
	r.stop()
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v", err)
	}
}
