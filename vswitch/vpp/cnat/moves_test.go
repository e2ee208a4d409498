package cnat

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/contiv/vswitch/vpp/session"
	"github.com/contiv/contiv/vswitch/vpp/subsystem"
)

// Flows are not silent for ever: as long as one moves after the other, and for a while after the last one.
func TestFlowsThatDoNotMove(t *testing.T) {
	flows := make([]subsystem.Flow, 3)
	for i := range flows {
		flows[i] = subsystem.Flow{From: netip.AddrPortFrom(netip.MustParseAddr("10.1.1.2"), uint16(i+1)), To: netip.MustParseAddrPort("10.96.0.10:53")}
	}
	var w waiting
	begin := time.Now()
	for _, step := range []struct {
		after   time.Duration
		flows   []subsystem.Flow
		tooLong bool
	}{
		{0, flows[:2], false}, {patience, flows[:2], false}, {patience + settle, flows[1:], false}, {2*patience + settle, flows[:], false},
		{2*patience + 2*settle, flows[:], true}, {2*patience + 3*settle, flows[:1], false}, {4 * patience, nil, false},
	} {
		if got := w.tooLong(step.flows, begin.Add(step.after)); got != step.tooLong {
			t.Errorf("%d flows after %v: too long: %v", len(step.flows), step.after, got)
		}
	}
}

// Opened asks for flows before others can use the connection, which may take longer than endpoints are given to settle.
func TestFlowsAreLookedForWhenTheConnectionIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		v := New(session.New("/no/socket", nil), nil, nil, nil, nil)
		ended := make(chan struct{})
		go func() {
			v.moveFlows(ctx)
			close(ended)
		}()
		time.Sleep(10 * settle)
		synctest.Wait()
		select {
		case <-ended:
			t.Error("given up before there was a connection")
		default:
		}
		cancel()
		<-ended
	})
}
