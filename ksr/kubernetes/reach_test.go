package kubernetes

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/contiv/ksr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
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
	s := New(Options{Client: server, Dynamic: server.custom, ProbeInterval: time.Millisecond, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Probe: func(context.Context) error {
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

func TestProbe(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		fails   bool
	}{
		"ready":       {func(http.ResponseWriter, *http.Request) {}, false},
		"refuses":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, false},
		"not ready":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, true},
		"hangs":       {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, true},
		"breaks down": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan string, 20)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked <- r.URL.Path
				test.handler(w, r)
			}))
			defer server.Close()
			client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, Transport: &http.Transport{DisableKeepAlives: true}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if name == "hangs" {
				go func() { <-asked; cancel() }()
			}
			if err := NewProbe(client)(ctx); (err != nil) != test.fails {
				t.Errorf("error %v", err)
			}
			if name != "hangs" && <-asked != "/readyz" {
				t.Error("something else was asked")
			}
		})
	}
}
