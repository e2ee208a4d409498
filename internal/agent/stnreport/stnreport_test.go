package stnreport

import (
	"context"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/stn"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/stn/client"
	"google.golang.org/grpc"
)

// custody is a contiv-stn that passes on the reports on a card.
type custody struct {
	stn.UnimplementedCustodyServer
	reports chan *stn.Forwarding
}

func (c custody) Attend(stream grpc.BidiStreamingServer[stn.Forwarding, stn.Holding]) error {
	for {
		f, err := stream.Recv()
		if err != nil {
			return err
		}
		select {
		case c.reports <- f:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// starting is an agent that starts next to a forwarding VPP. It can see that only after its resync.
type starting struct {
	synced atomic.Bool
	seen   chan struct{} // receives a token at each observation
}

func (*starting) card() string { return "eth0" }

// No earlier agent configured the VPP.
func (*starting) forwardsEarlier(context.Context) bool { return false }

func (s *starting) forwards() client.Report {
	r := client.Report{Ready: s.synced.Load(), Why: "vpp1 is NONEXISTENT"}
	select {
	case s.seen <- struct{}{}:
	default:
	}
	return r
}

// reports returns the reports of an agent to a contiv-stn that has eth0.
func reports(t *testing.T, synced func() bool, o observer) <-chan *stn.Forwarding {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "stn.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server, daemon := grpc.NewServer(), custody{reports: make(chan *stn.Forwarding)}
	stn.RegisterCustodyServer(server, daemon)
	stn.RegisterSTNServer(server, claimed{})
	go server.Serve(l)
	t.Cleanup(server.Stop)
	c, err := client.New(socket)
	if err != nil {
		t.Fatal(err)
	}
	reporter := &Reporter{client: c, log: plugintest.Logger()}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- reporter.report(ctx, synced, o, func(*stn.Holding) {}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		reporter.Close()
	})
	return daemon.reports
}

// A restarted agent sends no report on the card before it knows VPP's state; contiv-stn would
// return the card after a wrong one.
func TestRestartedAgentReportsWhatItKnows(t *testing.T) {
	vpp := &starting{seen: make(chan struct{}, 1)}
	synced := func() bool {
		select { // the resync ends right after an observation that came too early
		case <-vpp.seen:
		case <-time.After(2 * observePeriod): // no such observation
		}
		vpp.synced.Store(true)
		return true
	}
	got := reports(t, synced, vpp)
	if first := <-got; !first.GetReady() || first.GetInterfaceName() != "eth0" {
		t.Errorf("the first report is %v", first)
	}
}

// forwarding is a VPP with an earlier agent's configuration. The present agent waits for etcd until
// synced.
type forwarding struct{ synced atomic.Bool }

func (*forwarding) card() string                         { return "eth0" }
func (*forwarding) forwards() client.Report              { return client.Report{Ready: true} }
func (*forwarding) forwardsEarlier(context.Context) bool { return true }

// An agent that waits next to such a VPP repeats that it waits, and later reports its observations.
func TestWaitingAgentIsHeard(t *testing.T) {
	vpp := &forwarding{}
	got := reports(t, vpp.synced.Load, vpp)
	for range 2 {
		if f := <-got; !f.GetWaiting() || f.GetReady() || f.GetInterfaceName() != "eth0" {
			t.Errorf("while it waits, the agent says %v", f)
		}
	}
	vpp.synced.Store(true)
	f := <-got
	if f.GetWaiting() { // sent before
		f = <-got
	}
	if f.GetWaiting() || !f.GetReady() {
		t.Errorf("when it knows, the agent says %v", f)
	}
}

// claimed is a contiv-stn with eth0 claimed.
type claimed struct{ stn.UnimplementedSTNServer }

func (claimed) StolenInterfaceInfo(context.Context, *stn.STNRequest) (*stn.STNReply, error) {
	return &stn.STNReply{InterfaceName: "eth0"}, nil
}
