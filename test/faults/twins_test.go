package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
)

func TestTwins(t *testing.T) {
	t.Parallel()
	s := newSite(t, "tw")
	t.Run("same node", func(t *testing.T) { sameNode(t, s) })
	t.Run("same name", func(t *testing.T) { sameName(t, s) })
}

type twin struct {
	cmd    *exec.Cmd
	output bytes.Buffer
	ended  chan error
}

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

func (w *twin) kill() {
	w.cmd.Process.Kill()
	err := <-w.ended
	w.ended <- err
}

// end waits until the twin exits with an error and returns the end of its output.
func (w *twin) end(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
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
	f := begin(t, s, "Second agent on the same node", "A second agent is started with the same command line, and a third one with its own local file. The first agent continues.")
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
		t.Errorf("it ended without naming the other agent: %s", words)
	}
	f.sees("second agent with its own file", words)
	f.end()
}

// sameName lets another machine's agent claim to be node1. Kubernetes has another address of node1
// than its NIC, so that addresses do not identify the machine.
func sameName(t *testing.T, s *site) {
	f := begin(t, s, "Agent on another node with the same name", "The agent of another machine is started with the name of an existing node. "+
		"It finds the claim of the living agent in etcd, does nothing, and waits. That agent is killed meanwhile, and started again.")
	s.setInternalIP(t, "node1", "172.31.9.1")
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
		case strings.HasPrefix(arg, s.Path("pki")): // uses the certificate of node1, too
			arg = strings.Replace(arg, imposter.Name, "node1", 1)
		}
		command = append(command, arg)
	}
	w := s.newTwin(t, imposter.Name, command...)
	refused := func() (remark string, err error) {
		out, _ := exec.Command(filepath.Join(binaries, "contivctl"), "--agent", "imposter=unix://"+dir+"/agent.sock", "status").Output()
		remark = statusOf("imposter", string(out))
		if !strings.HasPrefix(remark, "broken not ready") || !strings.Contains(remark, "--node-name") {
			return "", fmt.Errorf("it says %q", out)
		}
		return remark, nil
	}
	var remark string
	await.That(t, "the second agent is refused", func() error {
		remark, err = refused()
		return err
	})
	f.sees("contivctl status of the second agent", remark)

	// The second agent, which retries every 5 s, must not win against a restart of the first one.
	s.kill(t, "node1")
	f.flow(50)
	f.heal()
	s.start(t, "node1")
	f.row.Healed, f.row.Until = time.Since(f.healing), "until the owner of the name was ready again"
	if f.row.Healed > nodesync.ClaimTTL/2 {
		t.Errorf("the agent was ready after %v: it has waited for its own claim", f.row.Healed)
	}
	for time.Since(f.healing) < nodesync.ClaimTTL {
		f.flow(20)
	}
	if _, err := refused(); err != nil {
		t.Errorf("the second agent: %v", err)
	}
	w.kill()
	for line := range strings.Lines(w.output.String()) {
		if strings.Contains(line, "Node ID known") || strings.Contains(line, "Node ID claimed") {
			t.Errorf("the second agent has worked: %s", line)
		}
	}
	if err := s.DelNode(t.Context(), imposter.Name); err != nil {
		t.Error(err)
	}
	f.row.Kept = "The first node keeps the name. The claim of a crashed agent expires after 15 s."
	f.end()
}

func (s *site) setInternalIP(t *testing.T, node, address string) {
	t.Helper()
	manifest := s.Path("manifests", "node_"+node+".yaml")
	before, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	was := s.node(t, node).Address.Addr().String()
	write := func(data []byte) {
		next := s.Path("next.yaml")
		if err := errors.Join(os.WriteFile(next, data, 0o600), os.Rename(next, manifest)); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { write(before) })
	write(bytes.ReplaceAll(before, []byte(was), []byte(address)))
	await.That(t, "node2 knows "+node+" by the address "+address, func() error {
		var report nodesync.NodesReport
		if err := s.Agent("node2").Get(t.Context(), nodesync.NodesURL, &report); err != nil {
			return err
		}
		for _, n := range report.Nodes {
			if n.Name == node && slices.Contains(n.MgmtIPs, address) {
				return nil
			}
		}
		return fmt.Errorf("it knows %v", report.Nodes)
	})
}
