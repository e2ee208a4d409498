package kubeclient

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/kubernetes/ksr"
	"github.com/contiv/contiv/internal/kubernetes/kubeapi/kubeapitest"
)

// wantReach waits until the source is disconnected for the reason or, if empty, is connected.
func wantReach(t *testing.T, s *Source, reason string) {
	t.Helper()
	for {
		_, changed, lost := s.Reach().Lost()
		if reason == "" && lost == nil || reason != "" && lost != nil && strings.Contains(lost.Error(), reason) {
			return
		}
		await(t, "change of the reach", changed)
	}
}

func TestSourceIsCutOffWhileProbesFail(t *testing.T) {
	var broken atomic.Bool
	server := newServer(cluster()...)
	s := New(Options{Client: kubeapitest.Client(server), Dynamic: server.custom, ProbeInterval: time.Millisecond, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Probe: func(context.Context) error {
		if broken.Load() {
			return errors.New("no route to host")
		}
		return nil
	}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	reports := make(chan ksr.Changes, 100)
	go func() {
		defer close(done)
		_ = s.Run(ctx, func(c ksr.Changes) { reports <- c })
	}()
	defer func() { cancel(); <-done }()
	await(t, "report", reports)
	wantReach(t, s, "")
	broken.Store(true)
	wantReach(t, s, "does not respond: no route to host")
	if problems := s.Problems(); len(problems) != 1 {
		t.Errorf("problems: %q", problems)
	}
	broken.Store(false)
	wantReach(t, s, "")
}

// A successful probe does not help a source that may not read.
func TestSourceIsCutOffWhileAKindCannotBeRead(t *testing.T) {
	server := newServer(cluster()...)
	server.fail(map[string]error{"pods": forbidden("pods")})
	s, _ := run(t, server, time.Millisecond)
	wantReach(t, s, "pods cannot be read")
	server.fail(nil)
	wantReach(t, s, "")
}
