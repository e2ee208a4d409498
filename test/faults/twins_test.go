package faults

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/test/lab"
)

func TestTwins(t *testing.T) {
	t.Parallel()
	s := newSite(t, "tw")
	t.Run("same node", func(t *testing.T) { sameNode(t, s) })
	t.Run("same name", func(t *testing.T) { sameName(t, s) })
}

// twin is an agent that the lab does not know.
type twin struct {
	cmd    *exec.Cmd
	output bytes.Buffer
	ended  chan error
}

// newTwin runs the command in the namespace of a node.
func (s *site) newTwin(t *testing.T, node string, command ...string) *twin {
	t.Helper()
	w := &twin{cmd: exec.Command(command[0], command[1:]...), ended: make(chan error, 1)}
	w.cmd.Stdout, w.cmd.Stderr = &w.output, &w.output
	if err := lab.InNetns(lab.NetnsPath(s.node(t, node).Netns), w.cmd.Start); err != nil {
		t.Fatal(err)
	}
	go func() { w.ended <- w.cmd.Wait() }()
	t.Cleanup(w.kill)
	return w
}

// kill ends the twin, if it runs.
func (w *twin) kill() {
	w.cmd.Process.Kill()
	err := <-w.ended
	w.ended <- err
}

// end awaits that the twin ends by itself with an error, and returns its last
// words.
func (w *twin) end(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	select {
	case err := <-w.ended:
		w.ended <- err
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Errorf("it ended with %v", err)
		}
	case <-ctx.Done():
		t.Fatal("it does not end")
	}
	lines := strings.Split(strings.TrimSpace(w.output.String()), "\n")
	return lines[len(lines)-1]
}

func sameNode(t *testing.T, s *site) {
	f := begin(t, s, "Second agent on the same node", "An agent is started with the same command line as the one that runs already; and another one with a local file of its own.")
	command := s.process(t, "node1").Command
	f.heal()
	words := s.newTwin(t, "node1", command...).end(t)
	f.row.Healed, f.row.Until = time.Since(f.healing), "until the second agent gave up"
	if !strings.Contains(words, s.bolt("node1")) {
		t.Errorf("it ended without naming the file: %s", words)
	}
	f.sees("second agent", words)
	words = s.newTwin(t, "node1", append(command, "--bolt", s.Path("nodes", "node1", "twin.db"))...).end(t)
	if !strings.Contains(words, "another process listens") && !strings.Contains(words, "is in use") {
		t.Errorf("it ended without saying who is in the way: %s", words)
	}
	f.sees("second agent with its own file", words)
	f.row.Kept = "The first agent goes on."
	f.end()
}

// sameName lets the agent of another machine claim to be node1.
func sameName(t *testing.T, s *site) {
	f := begin(t, s, "Agent on another node with the same name", "The agent of a third machine is started with the name of a node that exists. It recognises that the addresses of that node, in etcd and in Kubernetes, are not its own.")
	imposter, err := s.AddNode(t.Context(), "node3")
	if err != nil {
		t.Fatal(err)
	}
	s.kill(t, imposter.Name)
	dir := s.Path("nodes", imposter.Name, "imposter")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var command []string
	for _, arg := range s.process(t, imposter.Name).Command {
		switch {
		case arg == imposter.Name:
			arg = "node1"
		case arg == s.bolt(imposter.Name):
			arg = dir + "/bolt.db"
		case arg == s.RunDir(imposter.Name):
			arg = dir
		}
		command = append(command, arg)
	}
	w := s.newTwin(t, imposter.Name, command...)
	f.heal()
	words := w.end(t)
	f.row.Healed, f.row.Until = time.Since(f.healing), "until the second agent gave up"
	if !strings.Contains(words, "--node-name") {
		t.Errorf("it ended without saying what to change: %s", words)
	}
	f.sees("second agent", words)
	if err := s.DelNode(t.Context(), imposter.Name); err != nil {
		t.Error(err)
	}
	f.row.Kept = "The node that has the name keeps it."
	f.end()
}
