package main

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/vswitch/vpp"
)

// The request of `agentctl metrics get govppmux.stats`.
func TestMetricsByName(t *testing.T) {
	vs := vpp.Open(vpp.Options{Socket: filepath.Join(t.TempDir(), "none"), Logger: slog.New(slog.DiscardHandler)})
	defer vs.Close()
	get := func(s *southbound, name string) (int, string) {
		mux, answer := http.NewServeMux(), httptest.NewRecorder()
		s.handleMetrics(mux)
		mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics/"+name, nil))
		return answer.Code, answer.Body.String()
	}
	code, body := get(&southbound{vs: vs}, "govppmux.stats")
	if fields := map[string]any{}; code != http.StatusOK || json.Unmarshal([]byte(body), &fields) != nil {
		t.Errorf("of VPP: %d %s", code, body)
	}
	for s, hint := range map[*southbound]string{{}: "Linux kernel", {vs: vs}: "use govppmux.stats"} {
		name := "govppmux.stats"
		if s.vs != nil {
			name = "none"
		}
		if code, body := get(s, name); code != http.StatusNotFound || !strings.Contains(body, hint) {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
}
