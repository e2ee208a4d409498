package ctl

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/agent/health"
	"github.com/contiv/contiv/internal/ctl/status"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/contiv/contiv/internal/plugins/configdir"
	"github.com/contiv/contiv/kvscheduler/record"
)

func TestStatusTellsWhetherAnAgentWorksWithoutEtcd(t *testing.T) {
	for _, c := range []struct {
		code                    int
		problem, database, want string
		exit                    int
	}{
		{http.StatusOK, "", "not connected", "local  degraded  ready  1  etcd unreachable: not connected", 1},
		{http.StatusOK, "", "etcd: out of reach: the connection was lost", "local  degraded  ready  1  etcd unreachable: out of reach: the connection was lost", 1},
		{http.StatusServiceUnavailable, "startup resync is not done yet", "not connected", "local  broken  not ready  1  startup resync is not done yet etcd unreachable: not connected", 2},
	} {
		socket := filepath.Join(t.TempDir(), "agent.sock")
		mux := noValues()
		mux.HandleFunc("/readiness", func(w http.ResponseWriter, _ *http.Request) {
			rest.Answer(w, c.code, map[string]string{"Version": "1", "Error": c.problem, "Database": c.database})
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

func TestWatchedStatusTellsSinceWhen(t *testing.T) {
	began := time.Now()
	now := began
	var shown []string
	for range 2 {
		now = now.Add(5 * time.Minute)
		var out bytes.Buffer
		c := &cli{out: &out, errOut: io.Discard, format: asTable, now: func() time.Time { return now }, watching: true}
		problem := health.Problem{Check: "disk", Text: "the disk is full", Since: began}
		_ = c.showStatus([]target.Answer[status.Probe]{{Agent: &Agent{Name: "n"}, Value: status.Probe{Verdict: health.Degraded, State: status.Ready, Problems: []health.Problem{problem}}}})
		shown = append(shown, out.String())
	}
	if want := "the disk is full (since " + began.Format("01-02 15:04:05") + ")"; !strings.Contains(shown[0], want) || shown[1] != shown[0] {
		t.Errorf("%s, then %s, expected: %s", shown[0], shown[1], want)
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
	if want := "n degraded ready 1 too many of these too few of those"; ExitCode(err) != 1 || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}

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
		`n degraded ready 1 mistake in --config-dir: 2.yaml: document 1: unknown field "nam"; document 2: is no YAML; its previous content is used `,
		"mistake in --config-dir: 3.yaml: is no YAML; it is ignored",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in %q", want, out)
		}
	}
}

// noValues answers with no values in a wrong state.
func noValues() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc(valueStatus, func(w http.ResponseWriter, _ *http.Request) { rest.JSON(w, record.Statuses{}) })
	return mux
}

func TestStatusTellsProblems(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	mux := noValues()
	mux.HandleFunc("/readiness", func(w http.ResponseWriter, r *http.Request) {
		if !r.URL.Query().Has("verbose") {
			t.Error("the agent is not asked for problems")
		}
		rest.JSON(w, map[string]any{"Version": "1", "Verdict": "degraded", "Warnings": []string{"told twice"}, "Problems": []health.Problem{
			{Check: "values", Text: "1 value is FAILED", Since: time.Now().Add(-5 * time.Minute)},
			{Check: "peers", Text: "node n2 does not answer", Since: time.Now()},
		}})
	})
	serve(t, socket, mux)
	out, _, err := run(t, "--agent", "n=unix://"+socket, "status")
	want := "NODE  VERDICT   AGENT  VERSION  REMARK\nn     degraded  ready  1        1 value is FAILED (for 5m)\n                                node n2 does not answer\n"
	if ExitCode(err) != 1 || out != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}

func TestStatusTellsNotes(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	mux := noValues()
	mux.HandleFunc("/readiness", func(w http.ResponseWriter, _ *http.Request) {
		rest.JSON(w, map[string]any{"Version": "1", "Verdict": "healthy", "Notes": []string{"sessionAffinity has no time-out"}})
	})
	serve(t, socket, mux)
	for format, want := range map[string]string{
		"table": "NODE  VERDICT  AGENT  VERSION  REMARK\nn     healthy  ready  1        note: sessionAffinity has no time-out\n",
		"json":  `"notes": [`,
	} {
		args := []string{"--agent", "n=unix://" + socket, "status"}
		if format != "table" {
			args = append(args, "-o", format)
		}
		if out, _, err := run(t, args...); err != nil || !strings.Contains(out, want) {
			t.Errorf("got %q, %v, want %q", out, err, want)
		}
	}
}

func TestStatusComparesVersions(t *testing.T) {
	args := []string{"status"}
	for name, version := range map[string]string{"a": "2", "b": "1", "c": "2"} {
		socket := filepath.Join(t.TempDir(), "agent.sock")
		mux := noValues()
		mux.HandleFunc("/readiness", func(w http.ResponseWriter, _ *http.Request) {
			rest.JSON(w, map[string]any{"Version": version, "Verdict": "healthy"})
		})
		serve(t, socket, mux)
		args = append(args, "--agent", name+"=unix://"+socket)
	}
	out, _, err := run(t, args...)
	for _, want := range []string{"a healthy ready 2 b", "b degraded ready 1 the agent has version 1, but most agents 2: complete the upgrade c healthy"} {
		if ExitCode(err) != 1 || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("%q is missing in %q, %v", want, out, err)
		}
	}
}

func TestStatusComparesClocks(t *testing.T) {
	args := []string{"status"}
	for name, ahead := range map[string]time.Duration{"a": 0, "b": -time.Hour, "c": time.Second, "d": 0} {
		socket := filepath.Join(t.TempDir(), "agent.sock")
		mux := noValues()
		mux.HandleFunc("/readiness", func(w http.ResponseWriter, _ *http.Request) {
			rest.JSON(w, map[string]any{"Version": "1", "Verdict": "healthy", "last_update": time.Now().Add(ahead).Unix()})
		})
		serve(t, socket, mux)
		args = append(args, "--agent", name+"=unix://"+socket)
	}
	out, _, err := run(t, args...)
	out = regexp.MustCompile(`(1h0m[01]s|59m59s) behind the clock of node [acd]`).ReplaceAllString(strings.Join(strings.Fields(out), " "), "SO MUCH behind")
	want := "a healthy ready 1 b degraded ready 1 its clock is SO MUCH behind: synchronise the clocks, for example with NTP c healthy ready 1 d healthy"
	if ExitCode(err) != 1 || !strings.Contains(out, want) {
		t.Errorf("%q is missing in %q, %v", want, out, err)
	}
}

func TestStatusIsFollowed(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	var asked atomic.Int32
	mux := noValues()
	mux.HandleFunc("/readiness", func(w http.ResponseWriter, _ *http.Request) {
		verdict := map[string]any{"Version": "1", "Verdict": "healthy"}
		if asked.Add(1) > 3 {
			verdict = map[string]any{"Version": "1", "Verdict": "degraded", "Problems": []health.Problem{{Check: "peers", Text: "something new"}}}
		}
		rest.JSON(w, verdict)
	})
	serve(t, socket, mux)
	out, outW := io.Pipe()
	c := &cli{now: time.Now, name: "contivctl", out: outW, errOut: io.Discard, format: asTable, poll: time.Millisecond,
		targets: target.Options{Agents: []string{"n=unix://" + socket}, Timeout: 10 * time.Second}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	cmd := c.statusCommand()
	c.watchable(cmd)
	cmd.SetArgs([]string{"-w"})
	go func() { done <- cmd.ExecuteContext(ctx) }()
	lines := bufio.NewScanner(out)
	var verdicts []string
	for len(verdicts) < 2 && lines.Scan() {
		if fields := strings.Fields(lines.Text()); fields[0] == "n" {
			verdicts = append(verdicts, strings.Join(fields[1:], " "))
		}
	}
	if want := []string{"healthy ready 1", "degraded ready 1 something new"}; !slices.Equal(verdicts, want) {
		t.Errorf("shown: %q", verdicts)
	}
	cancel()
	go io.Copy(io.Discard, out)
	if err := <-done; err != nil {
		t.Error(err)
	}
	outW.Close()
}

func TestStatusTellsOfTheClusterOnce(t *testing.T) {
	var args []string
	for _, name := range []string{"n1", "n2"} {
		socket := filepath.Join(t.TempDir(), name+".sock")
		mux := noValues()
		mux.HandleFunc("/readiness", func(w http.ResponseWriter, _ *http.Request) {
			rest.JSON(w, map[string]any{"Version": "1", "Verdict": "healthy", "Problems": []health.Problem{
				{Check: "ksr", Text: "KSR: pods cannot be read", Since: time.Now().Add(-5 * time.Minute), Cluster: true},
				{Check: "ksr", Text: "KSR: " + map[string]string{"n1": "3", "n2": "4"}[name] + " more problems", Since: time.Now(), Cluster: true},
				{Check: "ksr", Text: "KSR: pod web-1 cannot be read", Since: time.Now(), Cluster: true},
				{Check: "ksr", Text: "KSR: pod web-2 cannot be read", Since: time.Now(), Cluster: true},
			}})
		})
		serve(t, socket, mux)
		args = append(args, "--agent", name+"=unix://"+socket)
	}
	out, _, err := run(t, append(args, "status")...)
	want := `NODE       VERDICT   AGENT  VERSION  REMARK
(cluster)  degraded  -      -        KSR: pods cannot be read (for 5m)
                                     KSR: 3 more problems
                                     KSR: pod web-1 cannot be read
                                     KSR: pod web-2 cannot be read
n1         healthy   ready  1
n2         healthy   ready  1
`
	if ExitCode(err) != 1 || out != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}
