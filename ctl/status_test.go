package ctl

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/record"
	"github.com/contiv/contiv/plugins/configdir"
	"github.com/contiv/contiv/rest"
)

// An agent that is not ready does not work without etcd.
func TestStatusTellsWhetherAnAgentWorksWithoutEtcd(t *testing.T) {
	for _, c := range []struct {
		code          int
		problem, want string
		exit          int
	}{
		{http.StatusOK, "", "local  degraded  ready  1  works without etcd: not connected", 1},
		{http.StatusServiceUnavailable, "startup resync is not done yet", "local  broken  not ready  1  startup resync is not done yet; without etcd: not connected", 2},
	} {
		socket := filepath.Join(t.TempDir(), "agent.sock")
		mux := noValues()
		mux.HandleFunc("/readiness", func(w http.ResponseWriter, _ *http.Request) {
			rest.Answer(w, c.code, map[string]string{"Version": "1", "Error": c.problem, "Database": "not connected"})
		})
		serve(t, socket, mux)
		out, _, err := run(t, "--agent", "local=unix://"+socket, "status")
		if code := ExitCode(err); code != c.exit {
			t.Errorf("exit code %d: %v", code, err)
		}
		_, line, _ := strings.Cut(out, "\n")
		if got := strings.Join(strings.Fields(line), " "); got != strings.Join(strings.Fields(c.want), " ") {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestStatusTellsWarnings(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	mux := noValues()
	mux.HandleFunc("/readiness", func(w http.ResponseWriter, _ *http.Request) {
		rest.JSON(w, map[string]any{"Version": "1", "Warnings": []string{"too many of these", "too few of those"}})
	})
	serve(t, socket, mux)
	out, _, err := run(t, "--agent", "n=unix://"+socket, "status")
	if want := "n degraded ready 1 warning: too many of these; warning: too few of those"; ExitCode(err) != 1 || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}

// What the agent cannot use of its directory is told, whether or not it is ready.
func TestStatusTellsMistakesInTheDirectory(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	mux := noValues()
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
	if ExitCode(err) != 1 {
		t.Errorf("exit code %d: %v", ExitCode(err), err)
	}
	out = strings.Join(strings.Fields(out), " ")
	for _, want := range []string{
		`n degraded ready 1 mistake in --config-dir: 2.yaml: document 1: unknown field "nam"; document 2: is no YAML; what it said before counts; `,
		"mistake in --config-dir: 3.yaml: is no YAML; nothing of it counts",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in %q", want, out)
		}
	}
}

// noValues answers that all values are as they should be.
func noValues() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc(valueStatus, func(w http.ResponseWriter, _ *http.Request) { rest.JSON(w, []record.Status{}) })
	return mux
}

// Values that are not as they should be make a node degraded; one of each state is told.
func TestStatusTellsOfBadValues(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	var asked []string
	mux := http.NewServeMux()
	mux.HandleFunc("/readiness", func(w http.ResponseWriter, _ *http.Request) { rest.JSON(w, map[string]string{"Version": "1"}) })
	mux.HandleFunc(valueStatus, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Query()["state"]
		status := func(key string, state pb.ValueState, problem string) *pb.ValueStatus {
			return &pb.ValueStatus{Key: key, State: state, Error: problem}
		}
		rest.JSON(w, []record.Status{
			{BaseValueStatus: &pb.BaseValueStatus{Value: status("a", pb.ValueState_FAILED, "no such device")}},
			{BaseValueStatus: &pb.BaseValueStatus{
				Value: status("b", pb.ValueState_CONFIGURED, ""), DerivedValues: []*pb.ValueStatus{status("b/part", pb.ValueState_FAILED, "x"), status("b/other", pb.ValueState_INVALID, "line 1\nline 2")},
			}},
		})
	})
	serve(t, socket, mux)
	out, _, err := run(t, "--agent", "n=unix://"+socket, "status")
	want := "n degraded ready 1 2 values FAILED, such as a: no such device; 1 value INVALID, such as b/other: line 1; line 2"
	if ExitCode(err) != 1 || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
	if !slices.Equal(asked, []string{"FAILED", "RETRYING", "INVALID", "UNIMPLEMENTED"}) {
		t.Errorf("asked for %q", asked)
	}
}
