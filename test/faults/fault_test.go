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

// fault measures one fault: packets flow from its begin to its end.
type fault struct {
	*site
	t       *testing.T
	row     row
	streams []*lab.Stream
	// logs are the sizes of the agents' logs at the begin.
	logs map[string]int64
	// healing is when the fault was removed, or when nothing remained but to heal.
	healing time.Time
}

// interval between the datagrams of a stream.
const interval = 10 * time.Millisecond

// begin starts the packets: from the pod "here" to "near", "far" and outside.
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

// flow awaits n further packets of each stream.
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

// heal starts the time until all is well.
func (f *fault) heal() { f.healing = time.Now() }

// healed awaits what the agents do by themselves, and notes how long it took.
func (f *fault) healed(what string, check func() error) {
	f.t.Helper()
	await.That(f.t, what, check)
	f.row.Healed = time.Since(f.healing)
}

// sees notes what a user can see.
func (f *fault) sees(where, text string) {
	f.row.Sees = append(f.row.Sees, fmt.Sprintf("%s: `%s`", where, f.clean(text)))
}

// seesHealth awaits and notes a text of /readiness, which contivctl status shows.
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

// statusOf returns what contivctl status says of a node in the last line, or lines, of
// its table; "" if nothing.
func statusOf(node, table string) string {
	_, row, found := strings.Cut(table, "\n"+node+" ")
	if !found {
		return ""
	}
	return strings.Join(strings.Fields(row), " ")
}

// seesLog awaits and notes a line in the log of an agent since the begin.
func (f *fault) seesLog(node, want string) {
	f.t.Helper()
	await.That(f.t, "the log of "+node+" says "+want, func() error {
		for line := range bytes.Lines(f.readLog(node)[f.logs[node]:]) {
			if strings.Contains(string(line), want) {
				f.sees("log", logTime.ReplaceAllString(string(line), ""))
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

var (
	logTime  = regexp.MustCompile(`^time=\S+ `)
	changing = regexp.MustCompile(`\.damaged-\S+?(["; ]|$)`)
	holder   = regexp.MustCompile(`on host \S+ with .*? \(process \d+ since \S+\)`)
)

// clean removes from a text what is different each time.
func (f *fault) clean(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	text = strings.ReplaceAll(text, f.Dir(), "LAB")
	text = strings.ReplaceAll(text, " node=node1", "")
	text = holder.ReplaceAllString(text, "on host HOST with ADDRESSES (process PID since TIME)")
	text = changing.ReplaceAllString(text, ".damaged-TIME$1")
	return strings.ReplaceAll(text, "`", "'")
}

// end demands that nothing was lost and that all agents are well, and puts the
// row into the report.
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
