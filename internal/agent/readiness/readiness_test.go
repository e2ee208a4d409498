package readiness

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/agent/health"
)

// served serves the handlers of sources.
func served(s Sources) *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, handler := range s.Handlers() {
		mux.Handle(pattern, handler)
	}
	return mux
}

// The response has the fields that `agentctl status` reads: the state, its start, and the states of
// the parts.
func TestReadinessInFormatOfVPPAgent(t *testing.T) {
	failing := errors.New("not yet")
	check := func() error { return failing }
	mux := served(Sources{Alive: func() error { return nil }, Ready: check, Connected: check, Warnings: func(context.Context) []string { return nil }})
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
	mux := served(Sources{Alive: fine, Ready: fine, Connected: fine, Warnings: func(context.Context) []string { return []string{"too many of these"} }})
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
	mux := served(Sources{Alive: fine, Ready: fine, Connected: fine, Warnings: func(context.Context) []string { return nil },
		Notes: func() []string { return []string{"affinity lasts"} }, Health: health.NewMonitor(fine)})
	for path, verbose := range map[string]bool{"/liveness?verbose": false, "/readiness": false, "/readiness?verbose": true} {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		if body := answer.Body.String(); strings.Contains(body, "affinity lasts") != verbose || strings.Contains(body, `"Verdict": "healthy"`) != verbose {
			t.Errorf("%s: %s", path, body)
		}
	}
}
