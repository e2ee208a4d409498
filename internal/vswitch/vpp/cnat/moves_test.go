package cnat

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"
	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/ip_types"
)

// Flows are silenced as long as one of them moves occasionally, and for a while after the last.
func TestFlowsThatDoNotMove(t *testing.T) {
	flows := make([]lost, 3)
	for i := range flows {
		flows[i].Flow = subsystem.Flow{From: netip.AddrPortFrom(netip.MustParseAddr("10.1.1.2"), uint16(i+1)), To: netip.MustParseAddrPort("10.96.0.10:53")}
	}
	var w waiting
	begin := time.Now()
	for _, step := range []struct {
		after   time.Duration
		flows   []lost
		tooLong bool
	}{
		{0, flows[:2], false}, {maxSilence, flows[:2], false}, {maxSilence + moveDelay, flows[1:], false}, {2*maxSilence + moveDelay, flows[:], false},
		{2*maxSilence + 2*moveDelay, flows[:], true}, {2*maxSilence + 3*moveDelay, flows[:1], false}, {4 * maxSilence, nil, false},
	} {
		if got := w.tooLong(step.flows, begin.Add(step.after)); got != step.tooLong {
			t.Errorf("%d flows after %v: too long: %v", len(step.flows), step.after, got)
		}
	}
}

// Opened looks for flows before other callers can use the connection, which may take longer than
// moveDelay.
func TestFlowsAreLookedForWhenTheConnectionIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		v := New(session.New("/no/socket", nil), nil, nil, nil, nil, nil)
		ended := make(chan struct{})
		go func() {
			v.moveFlows(ctx)
			close(ended)
		}()
		time.Sleep(10 * moveDelay)
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

// The source seen by a backend is known only for the client's only connection to it, because VPP
// does not identify the lost one among several.
func TestSourcesThatBackendsSee(t *testing.T) {
	at := netip.MustParseAddrPort
	session := func(src, dst, translated string) *cnat.CnatSessionDetails {
		return &cnat.CnatSessionDetails{Session: cnat.CnatSession{Src: endpoint(at(src)), Dst: endpoint(at(dst)), New: endpoint(at(translated)), IPProto: ip_types.IP_API_PROTO_TCP}}
	}
	lostTo := func(from string) lost {
		return lost{Flow: subsystem.Flow{From: at(from), To: at("192.168.16.1:30080"), TCP: true}, backend: at("10.1.1.2:8080")}
	}
	list := []lost{lostTo("192.0.2.1:1000"), lostTo("192.0.2.1:1001"), lostTo("192.0.2.1:1002")}
	noteSources(list, []*cnat.CnatSessionDetails{
		session("10.1.1.2:8080", "10.1.1.254:5000", "192.0.2.1:1000"), session("10.1.1.3:8080", "10.1.1.254:5000", "192.0.2.1:1000"), session("192.0.2.1:1000", "192.168.16.1:30080", "10.1.1.2:8080"),
		session("10.1.1.2:8080", "10.1.1.254:5001", "192.0.2.1:1001"), session("10.1.1.2:8080", "10.1.1.254:5002", "192.0.2.1:1001"),
	})
	for i, want := range []netip.AddrPort{at("10.1.1.254:5000"), {}, {}} {
		if list[i].source != want {
			t.Errorf("of %v: %v, want %v", list[i].From, list[i].source, want)
		}
	}
}
