package southbound

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/vpp"
)

// The request of `agentctl metrics get govppmux.stats`.
func TestMetricsByName(t *testing.T) {
	vs := vpp.Open(vpp.Options{Socket: filepath.Join(t.TempDir(), "none"), Logger: slog.New(slog.DiscardHandler)})
	defer vs.Close()
	get := func(s *Southbound, name string) (int, string) {
		mux, answer := http.NewServeMux(), httptest.NewRecorder()
		for pattern, handler := range s.Handlers() {
			mux.Handle(pattern, handler)
		}
		mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics/"+name, nil))
		return answer.Code, answer.Body.String()
	}
	code, body := get(&Southbound{vs: vs}, "govppmux.stats")
	if fields := map[string]any{}; code != http.StatusOK || json.Unmarshal([]byte(body), &fields) != nil {
		t.Errorf("of VPP: %d %s", code, body)
	}
	for s, hint := range map[*Southbound]string{{}: "Linux kernel", {vs: vs}: "use govppmux.stats"} {
		name := "govppmux.stats"
		if s.vs != nil {
			name = "none"
		}
		if code, body := get(s, name); code != http.StatusNotFound || !strings.Contains(body, hint) {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
}
