package faults

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
)

type fault struct {
	*site
	t       *testing.T
	row     row
	streams []*lab.Stream
	// logs holds the initial sizes of the agents' logs.
	logs map[string]int64
	// healing is the start of the recovery.
	healing time.Time
}

const interval = 10 * time.Millisecond

// begin starts streams from the pod "here" to "near", "far" and the outside host.
func begin(t *testing.T, s *site, name, what string) *fault {
	t.Helper()
	f := &fault{site: s, t: t, row: row{Fault: name, What: what}, logs: map[string]int64{}}
	for _, n := range s.state(t).Nodes {
		f.logs[n.Name] = int64(len(f.readLog(n.Name)))
	}
	for _, to := range []lab.Endpoint{s.near.Endpoint(), s.far.Endpoint(), s.outside} {
		stream, err := lab.StartStream(s.here.Endpoint(), to, interval)
		if err != nil {
			t.Fatal(err)
		}
		f.streams = append(f.streams, stream)
	}
	t.Cleanup(f.stop)
	f.flow(10)
	return f
}

func (f *fault) flow(n int) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), await.Patience)
	defer cancel()
	for _, s := range f.streams {
		if err := s.Await(ctx, n); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *fault) stop() {
	for _, s := range f.streams {
		r := s.Stop()
		f.row.Sent += r.Sent
		f.row.Lost += r.Lost
		if r.Lost > 0 {
			f.t.Logf("%s: %s", s.Path, r)
		}
	}
	f.streams = nil
}

// heal starts the recovery time.
func (f *fault) heal() { f.healing = time.Now() }

// healed waits for the agents' recovery and records its duration.
func (f *fault) healed(what string, check func() error) {
	f.t.Helper()
	await.That(f.t, what, check)
	f.row.Healed = time.Since(f.healing)
}

func (f *fault) sees(where, text string) {
	f.row.Sees = append(f.row.Sees, fmt.Sprintf("%s: `%s`", where, f.clean(text)))
}

// seesHealth waits for a text in /readiness, which contivctl status shows, and records it.
func (f *fault) seesHealth(node, want string) {
	f.t.Helper()
	var text string
	await.That(f.t, "the health of "+node+" says "+want, func() error {
		if text = f.health(f.t.Context(), node); !strings.Contains(text, want) {
			return fmt.Errorf("it says %q", text)
		}
		return nil
	})
	out, err := exec.Command(filepath.Join(binaries, "contivctl"), "--config", f.CtlConfig(), "status", "--node", node).Output()
	if remark := statusOf(node, string(out)); remark != "" {
		f.sees("contivctl status", remark)
	} else {
		f.t.Errorf("contivctl status shows no %s: %v\n%s", node, err, out)
	}
}

// statusOf returns the remark of contivctl status about a node, which is in the last lines of its
// table.
func statusOf(node, table string) string {
	_, row, found := strings.Cut(table, "\n"+node+" ")
	if !found {
		return ""
	}
	return strings.Join(strings.Fields(row), " ")
}

// seesLog waits for a new line in the log of an agent.
func (f *fault) seesLog(node, want string) {
	f.t.Helper()
	await.That(f.t, "the log of "+node+" says "+want, func() error {
		for line := range bytes.Lines(f.readLog(node)[f.logs[node]:]) {
			if strings.Contains(string(line), want) {
				return nil
			}
		}
		return fmt.Errorf("no such line")
	})
}

func (f *fault) readLog(node string) []byte {
	data, err := os.ReadFile(f.Path("logs", "agent-"+node+".log"))
	if err != nil {
		f.t.Fatal(err)
	}
	return data
}

var holder = regexp.MustCompile(`on host \S+ with .*? \(process \d+ since \S+\)`)

func (f *fault) clean(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	text = strings.ReplaceAll(text, f.Dir(), "LAB")
	text = holder.ReplaceAllString(text, "on host HOST with ADDRESSES (process PID since TIME)")
	return strings.ReplaceAll(text, "`", "'")
}

// end checks that no packet was lost and that all agents are healthy, and adds the row to the
// report.
func (f *fault) end() {
	f.t.Helper()
	f.flow(20)
	f.stop()
	if f.row.Lost > 0 {
		f.t.Errorf("%d of %d packets were lost", f.row.Lost, f.row.Sent)
	}
	f.settle(f.t)
	if !f.t.Failed() {
		report.add(f.row)
	}
}
