package loglevel

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// agentctl uses these endpoints (log list, log set).
func TestLevelsByComponent(t *testing.T) {
	var out bytes.Buffer
	log := New(&out, slog.LevelInfo).With("node", "n1")
	linux, ipam := log.With(Component, "linux"), log.With(Component, "ipam").WithGroup("g")
	lines := func() string {
		out.Reset()
		for _, l := range []*slog.Logger{log, linux, ipam} {
			l.Debug("details")
			l.Info("news")
		}
		return out.String()
	}
	handler := Handler(log)
	request := func(method, path string, answer any) int {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		if err := json.Unmarshal(w.Body.Bytes(), answer); err != nil {
			t.Fatalf("%s %s: %v: %s", method, path, err, w.Body)
		}
		return w.Code
	}
	if got := lines(); strings.Contains(got, "details") || strings.Count(got, "news") != 3 {
		t.Errorf("at first: %s", got)
	}
	var set Level
	if code := request("PUT", "/log/linux/debug", &set); code != http.StatusOK || set != (Level{"linux", "debug"}) {
		t.Errorf("%d %v", code, set)
	}
	if got := lines(); strings.Count(got, "details") != 1 || !strings.Contains(got, "msg=details node=n1 plugin=linux") {
		t.Errorf("with details of linux: %s", got)
	}
	request("PUT", "/log/ipam/error", &set)
	if got := lines(); strings.Count(got, "news") != 2 {
		t.Errorf("without news of ipam: %s", got)
	}
	var list []Level
	request("GET", "/log/list", &list)
	if want := []Level{{"default", "info"}, {"ipam", "error"}, {"linux", "debug"}}; !slices.Equal(list, want) {
		t.Errorf("list %v, want %v", list, want)
	}
	request("PUT", "/log/default/warning", &set)
	if got := lines(); got != "" {
		t.Errorf("with warnings only: %s", got)
	}
	var refusal struct{ Error string }
	if code := request("PUT", "/log/none/debug", &refusal); code != http.StatusNotFound || !strings.Contains(refusal.Error, "/log/list") {
		t.Errorf("unknown logger: %d %v", code, refusal)
	}
	if code := request("PUT", "/log/linux/loud", &refusal); code != http.StatusBadRequest || !strings.Contains(refusal.Error, "debug, info") {
		t.Errorf("unknown level: %d %v", code, refusal)
	}
}
