package main

import (
	"context"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/stn"
	"github.com/contiv/contiv/plugins/plugintest"
	"github.com/contiv/contiv/stn/client"
	"google.golang.org/grpc"
)

// custody is a contiv-stn that keeps what it is told of a card.
type custody struct {
	stn.UnimplementedCustodyServer
	told chan *stn.Forwarding
}

func (c custody) Attend(stream grpc.BidiStreamingServer[stn.Forwarding, stn.Holding]) error {
	for {
		f, err := stream.Recv()
		if err != nil {
			return err
		}
		select {
		case c.told <- f:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// starting is an agent that starts beside a VPP that forwards: it sees so only once it has its values.
type starting struct {
	synced atomic.Bool
	seen   chan struct{} // receives a token at each look
}

func (*starting) card() string { return "eth0" }

// left: an agent before it configured nothing.
func (*starting) left(context.Context) bool { return false }

func (s *starting) see() client.Report {
	r := client.Report{Ready: s.synced.Load(), Why: "vpp1 is NONEXISTENT"}
	select {
	case s.seen <- struct{}{}:
	default:
	}
	return r
}

// reports returns what an agent, which runs until the test ends, tells a contiv-stn that has eth0.
func reports(t *testing.T, synced func() bool, o observer) <-chan *stn.Forwarding {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "stn.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server, daemon := grpc.NewServer(), custody{told: make(chan *stn.Forwarding)}
	stn.RegisterCustodyServer(server, daemon)
	stn.RegisterSTNServer(server, claimed{})
	go server.Serve(l)
	t.Cleanup(server.Stop)
	c, err := client.New(socket)
	if err != nil {
		t.Fatal(err)
	}
	thief := &thief{client: c, log: plugintest.Logger()}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- thief.report(ctx, synced, o, func(*stn.Holding) {}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		thief.Close()
	})
	return daemon.told
}

// An agent that is started says nothing of the card before it knows what VPP does, and then what it sees then: contiv-stn, which waits
// some seconds for it, would give the card back otherwise.
func TestRestartedAgentReportsWhatItKnows(t *testing.T) {
	vpp := &starting{seen: make(chan struct{}, 1)}
	synced := func() bool {
		select { // the resync ends right after somebody has looked too early
		case <-vpp.seen:
		case <-time.After(2 * stnLook): // nobody does
		}
		vpp.synced.Store(true)
		return true
	}
	told := reports(t, synced, vpp)
	if first := <-told; !first.GetReady() || first.GetInterfaceName() != "eth0" {
		t.Errorf("the first report is %v", first)
	}
}

// forwarding is a VPP that an earlier agent configured; this one waits for etcd until synced.
type forwarding struct{ synced atomic.Bool }

func (*forwarding) card() string              { return "eth0" }
func (*forwarding) see() client.Report        { return client.Report{Ready: true} }
func (*forwarding) left(context.Context) bool { return true }

// An agent that waits beside a VPP that an earlier one configured says so again and again, and what it sees afterwards.
func TestWaitingAgentIsHeard(t *testing.T) {
	vpp := &forwarding{}
	told := reports(t, vpp.synced.Load, vpp)
	for range 2 {
		if f := <-told; !f.GetWaiting() || f.GetReady() || f.GetInterfaceName() != "eth0" {
			t.Errorf("while it waits, the agent says %v", f)
		}
	}
	vpp.synced.Store(true)
	f := <-told
	if f.GetWaiting() { // it was sent before
		f = <-told
	}
	if f.GetWaiting() || !f.GetReady() {
		t.Errorf("when it knows, the agent says %v", f)
	}
}

// claimed is a contiv-stn that eth0 is claimed of.
type claimed struct{ stn.UnimplementedSTNServer }

func (claimed) StolenInterfaceInfo(context.Context, *stn.STNRequest) (*stn.STNReply, error) {
	return &stn.STNReply{InterfaceName: "eth0"}, nil
}
