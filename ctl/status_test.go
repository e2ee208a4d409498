package ctl

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/plugins/configdir"
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

func TestStatusTellsWarnings(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	serve(t, socket, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		rest.JSON(w, map[string]any{"Version": "1", "Warnings": []string{"too many of these", "too few of those"}})
	}))
	out, _, err := run(t, "--agent", "n=unix://"+socket, "status")
	if want := "n ready 1 warning: too many of these; warning: too few of those"; err != nil || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}

// What the agent cannot use of its directory is told, whether or not it is ready.
func TestStatusTellsMistakesInTheDirectory(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	mux := http.NewServeMux()
	mux.HandleFunc("/readiness", func(w http.ResponseWriter, _ *http.Request) { rest.JSON(w, map[string]string{"Version": "1"}) })
	mux.HandleFunc(configdir.URL, func(w http.ResponseWriter, _ *http.Request) {
		rest.JSON(w, configdir.Status{Files: []configdir.FileStatus{
			{Name: "1.yaml", Values: 2, Of: configdir.Present},
			{Name: "2.yaml", Values: 1, Of: configdir.Earlier, Err: "document 1: unknown field \"nam\"\ndocument 2: is no YAML"},
			{Name: "3.yaml", Of: configdir.Nothing, Err: "3.yaml: is no YAML"},
		}})
	})
	serve(t, socket, mux)
	out, _, err := run(t, "--agent", "n=unix://"+socket, "status")
	if err != nil {
		t.Fatal(err)
	}
	out = strings.Join(strings.Fields(out), " ")
	for _, want := range []string{
		`n ready 1 mistake in --config-dir: 2.yaml: document 1: unknown field "nam"; document 2: is no YAML; what it said before counts; `,
		"mistake in --config-dir: 3.yaml: is no YAML; nothing of it counts",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in %q", want, out)
		}
	}
}
