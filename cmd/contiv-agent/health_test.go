package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/health"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/prometheus/client_golang/prometheus"
)

// The response has the fields that `agentctl status` reads: the state, its start, and the states of
// the parts.
func TestReadinessAsTheVPPAgentTellsIt(t *testing.T) {
	failing := errors.New("not yet")
	check := func() error { return failing }
	mux := http.NewServeMux()
	checks{alive: func() error { return nil }, ready: check, connected: check, warnings: func(context.Context) []string { return nil }}.
		handle(mux, prometheus.NewRegistry())
	ask := func() (state int, start, change int64, agent string) {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readiness", nil))
		var status struct {
			State        int   `json:"state"`
			StartTime    int64 `json:"start_time"`
			LastChange   int64 `json:"last_change"`
			PluginStatus map[string]struct{ Error string }
		}
		if err := json.Unmarshal(answer.Body.Bytes(), &status); err != nil {
			t.Fatal(err)
		}
		return status.State, status.StartTime, status.LastChange, status.PluginStatus["agent"].Error
	}
	if state, start, change, agent := ask(); state != stateError || start == 0 || change < start || agent != "not yet" {
		t.Errorf("before: state %d, started %d, changed %d, error %q", state, start, change, agent)
	}
	failing = nil
	if state, _, _, agent := ask(); state != stateOK || agent != "" {
		t.Errorf("after: state %d, error %q", state, agent)
	}
}

// Liveness does not depend on the vswitch.
func TestOnlyReadinessAsksTheVSwitch(t *testing.T) {
	fine := func() error { return nil }
	mux := http.NewServeMux()
	checks{alive: fine, ready: fine, connected: fine, warnings: func(context.Context) []string { return []string{"too many of these"} }}.
		handle(mux, prometheus.NewRegistry())
	for path, warned := range map[string]bool{"/liveness": false, "/readiness": true} {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		if body := answer.Body.String(); answer.Code != http.StatusOK || strings.Contains(body, "too many of these") != warned {
			t.Errorf("%s: %d, %s", path, answer.Code, body)
		}
	}
}

// Only ?verbose includes the notes, and they leave the verdict healthy.
func TestNotesAreNoProblems(t *testing.T) {
	fine := func() error { return nil }
	mux := http.NewServeMux()
	checks{alive: fine, ready: fine, connected: fine, warnings: func(context.Context) []string { return nil }, notes: func() []string { return []string{"affinity lasts"} },
		health: health.NewMonitor(fine)}.handle(mux, prometheus.NewRegistry())
	for path, verbose := range map[string]bool{"/liveness?verbose": false, "/readiness": false, "/readiness?verbose": true} {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		if body := answer.Body.String(); strings.Contains(body, "affinity lasts") != verbose || strings.Contains(body, `"Verdict": "healthy"`) != verbose {
			t.Errorf("%s: %s", path, body)
		}
	}
}

// A node works with a full etcd. `contivctl status` shows the remedy until space is available.
func TestFullEtcdIsAProblem(t *testing.T) {
	full := errors.New("etcd is full: raise its quota")
	fine := func() error { return nil }
	scheduler := kvscheduler.New(kvscheduler.Options{})
	t.Cleanup(func() { scheduler.Close() })
	dir := t.TempDir()
	monitor := checks{ready: fine, connected: fine, nodeConfig: fine, warnings: func(context.Context) []string { return nil }, full: func(context.Context) error { return full }}.
		monitored(options{runDir: dir, bolt: filepath.Join(dir, "bolt.db"), grpcBolt: filepath.Join(dir, "grpc.db")}, &southbound{scheduler: scheduler}, health.NoOwners, nil, nil, nil, prometheus.NewRegistry()).health
	problems := monitor.Look(t.Context())
	if len(problems) != 1 || problems[0].Text != full.Error() || monitor.Verdict(problems) != health.Degraded {
		t.Errorf("problems are %+v, the verdict is %s", problems, monitor.Verdict(problems))
	}
	full = nil
	if problems := monitor.Look(t.Context()); len(problems) > 0 || monitor.Verdict(problems) != health.Healthy {
		t.Errorf("with space again, problems are %+v", problems)
	}
}
