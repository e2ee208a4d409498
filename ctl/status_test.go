package ctl

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/rest"
)

// An agent that is not ready does not work without etcd.
func TestStatusTellsWhetherAnAgentWorksWithoutEtcd(t *testing.T) {
	for _, c := range []struct {
		code          int
		problem, want string
	}{
		{http.StatusOK, "", "local  ready  1  works without etcd: not connected"},
		{http.StatusServiceUnavailable, "startup resync is not done yet", "local  not ready  1  startup resync is not done yet; without etcd: not connected"},
	} {
		socket := filepath.Join(t.TempDir(), "agent.sock")
		serve(t, socket, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			rest.Answer(w, c.code, map[string]string{"Version": "1", "Error": c.problem, "Database": "not connected"})
		}))
		out, _, err := run(t, "--agent", "local=unix://"+socket, "status")
		if (err != nil) != (c.problem != "") {
			t.Errorf("error %v", err)
		}
		_, line, _ := strings.Cut(out, "\n")
		if got := strings.Join(strings.Fields(line), " "); got != strings.Join(strings.Fields(c.want), " ") {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
