package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// A vswitch that hangs does not make the agent look dead.
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
