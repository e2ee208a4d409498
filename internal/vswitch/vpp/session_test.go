package vpp

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
	"github.com/contiv/contiv/kvscheduler"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/memclnt"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, s vpptest.VPP) *VSwitch {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	v, err := New(ctx, Options{Socket: s.Socket()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	return v
}

func reasons(t testing.TB, v *VSwitch) <-chan string {
	t.Helper()
	got := make(chan string, 16)
	if err := v.Watch(t.Context(), func(reason string, keys ...string) { got <- reason }); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestRealVPPIsTheOneWeKnow(t *testing.T) {
	v := open(t, vpptest.NewProcess(t, "/proc/self/ns/net"))
	l, err := v.vpp.Use(session.Core)
	if err != nil {
		t.Fatal(err)
	}
	for m, why := range l.Lacks() {
		if strings.Contains(why.Error(), "not loaded") { // VPP may be built without
			t.Logf("%s: %v", m, why)
		} else {
			t.Errorf("%s: %v", m, why)
		}
	}
}

func TestEverythingMayHaveChangedAfterARestart(t *testing.T) {
	s := vpptest.New(t)
	v := open(t, s)
	got := reasons(t, v)
	for _, test := range []struct {
		fault func()
		want  string
	}{{s.Restart, "VPP was restarted"}, {s.Disconnect, "connection to VPP was lost"}, {s.Restart, "VPP was restarted"}} {
		test.fault()
		if reason := <-got; !strings.Contains(reason, test.want) {
			t.Errorf("reported %q, want %q", reason, test.want)
		}
		if err := v.vpp.Call(t.Context(), session.Core, &memclnt.ControlPing{}, &memclnt.ControlPingReply{}); err != nil {
			t.Error(err)
		}
	}
}

func TestRequestsFailAtOnceWhenTheConnectionEnds(t *testing.T) {
	s := vpptest.New(t)
	v := open(t, s)
	s.Silence(true)
	l, err := v.vpp.Use(session.Core)
	if err != nil {
		t.Fatal(err)
	}
	p := l.Start(t.Context(), &memclnt.ControlPing{})
	s.Stop()
	if err := p.Wait(t.Context(), &memclnt.ControlPingReply{}); !errors.Is(err, vppapi.ErrClosed) {
		t.Errorf("got %v, want %v", err, vppapi.ErrClosed)
	}
	<-l.Done()
	for { // the session notices it later
		err := v.vpp.Call(t.Context(), session.Core, &memclnt.ControlPing{}, &memclnt.ControlPingReply{})
		if err == nil {
			t.Fatal("a VPP that is not there answers")
		}
		if strings.Contains(err.Error(), "cannot be reached") {
			return
		}
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	s := vpptest.New(t)
	v := open(t, s)
	s.Silence(true)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := v.vpp.Call(ctx, session.Core, &memclnt.ControlPing{}, &memclnt.ControlPingReply{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
}

func TestRefusalsSayWhatWasRefused(t *testing.T) {
	s := vpptest.New(t)
	v := open(t, s)
	s.Refuse("control_ping", api.INVALID_VALUE)
	err := v.vpp.Call(t.Context(), session.Core, &memclnt.ControlPing{}, &memclnt.ControlPingReply{})
	if !vppapi.Refused(err, api.INVALID_VALUE) || !strings.Contains(err.Error(), "control_ping") {
		t.Errorf("got %v", err)
	}
}

func TestAnotherVPPIsNotUsed(t *testing.T) {
	s := vpptest.New(t)
	s.OtherCRC("show_version", "12345678")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := New(ctx, Options{Socket: s.Socket()})
	if err == nil || !strings.Contains(err.Error(), "show_version") || !strings.Contains(err.Error(), "25.10") {
		t.Errorf("got %v, want an error that names the message and the release", err)
	}
}

func TestMissingPluginIsUnsupported(t *testing.T) {
	present := session.NewModule("test_plugin.so", "testing", &memclnt.ControlPing{}, &memclnt.ControlPingReply{})
	missing := session.NewModule("wings_plugin.so", "flying", &memclnt.SockInitShm{})
	s := session.New(vpptest.New(t).Socket(), slog.Default())
	s.Start(session.Hooks{Modules: []*session.Module{present, missing}})
	defer s.Close()
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Use(present); err != nil {
		t.Error(err)
	}
	_, err := s.Use(missing)
	if !errors.Is(err, kvscheduler.ErrUnsupported) || !strings.Contains(err.Error(), "wings_plugin.so") {
		t.Errorf("got %v, want %v that names the plugin", err, kvscheduler.ErrUnsupported)
	}
}
