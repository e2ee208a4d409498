package calico

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/client"
	"github.com/contiv/contiv/test/await"
)

func (s *site) startProgram(log *os.File, command ...string) *exec.Cmd {
	s.t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd
}

func (s *site) logFile(name string) *os.File {
	s.t.Helper()
	f, err := os.Create(s.path(name))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		f.Close()
		if data, err := os.ReadFile(s.path(name)); err == nil && s.t.Failed() {
			s.t.Logf("%s:\n%s", name, data)
		}
	})
	return f
}

// Nodes get their routes from the central program and keep them when it ends.
func TestCentralMode(t *testing.T) {
	s, nodes := newCluster(t, 2, "--central")
	w1 := nodes[0]
	centre := s.startProgram(s.logFile("centre.log"), filepath.Join(binaries, "contiv-calico-routes"),
		"--centre", "--hostname", "centre", "--etcd-endpoints", s.endpoint(), "--ttl", "5s", "--http", "")
	s.start(nodes...)
	await.That(t, "the centre writes routes", func() error {
		kv, found, err := s.db.Get(t.Context(), "/vpp-calico/hosts/w1/routes/ipv4/10.66.0.64-26")
		if err == nil && (!found || string(kv.Value) != `{"via":"172.30.0.2","host":"w2"}`) {
			err = fmt.Errorf("it wrote %q", kv.Value)
		}
		return err
	})
	s.awaitPing("a1", pod2)
	w1.awaitRoute(block1, "blackhole")
	w1.awaitReady()

	// No node overwrites the central data or accepts other routes.
	centre.Process.Kill()
	centre.Wait()
	s.put("/vpp-calico/hosts/w1/routes/ipv4/10.66.3.0-26", `{"via":"172.30.0.1","host":"w2"}`)
	s.putBlock("10.66.2.0/26", "w2", nil)
	w1.awaitRoute("10.66.2.0/26", "via 172.30.0.2")
	w1.awaitRoute("10.66.3.0/26", "")
	if err := s.ping("a1", pod2); err != nil {
		t.Error(err)
	}
}

// A running agent programs the routes. Its other values stay.
func TestThroughRunningAgent(t *testing.T) {
	s, nodes := newCluster(t, 2)
	w1 := nodes[0]
	w1.flags = []string{"--agent", "unix://" + s.path("agent/grpc.sock")}
	start := func() *exec.Cmd {
		return s.startProgram(s.logFile("agent.log"), "ip", "netns", "exec", s.netns("w1"), filepath.Join(binaries, "contiv-agent"),
			"--standalone", "--node-name", "w1", "--run-dir", s.path("agent"), "--bolt", s.path("bolt.db"), "--http", "",
			"--contiv-config", os.DevNull, "--controller-config", os.DevNull)
	}
	s.start(nodes...)
	agent := start() // later than its client
	s.awaitPing("a1", pod2)
	s.putBlock("10.66.2.0/26", "w2", nil)
	w1.awaitRoute("10.66.2.0/26", "via 172.30.0.2")

	// The route of another client of the agent stays.
	other, err := client.DialGRPC(w1.flags[1], client.GRPC{Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	const others = "10.88.0.0/16"
	if _, err := other.Txn().Put(&vpp_l3.Route{Type: vpp_l3.Route_DROP, DstNetwork: others}).Commit(t.Context()); err != nil {
		t.Fatal(err)
	}

	// The program catches up on changes after its own downtime and after the agent's.
	w1.stop()
	s.delete(blockKey("10.66.2.0/26"))
	s.putBlock("10.66.3.0/26", "w2", nil)
	w1.start()
	w1.awaitRoute("10.66.3.0/26", "via 172.30.0.2")
	w1.awaitRoute("10.66.2.0/26", "")
	w1.awaitRoute(others, "blackhole")
	s.putBlock("10.66.2.0/26", "w2", nil)
	w1.awaitRoute("10.66.2.0/26", "via 172.30.0.2")

	agent.Process.Kill()
	agent.Wait()
	s.delete(blockKey("10.66.2.0/26"))
	s.putBlock(block3, "w2", nil)
	await.That(t, "the routes cannot be programmed", func() error {
		if err := w1.get("/readiness", nil); err == nil || !strings.Contains(err.Error(), "programming") {
			return errors.New(fmt.Sprint("it says: ", err))
		}
		return nil
	})
	start()
	w1.awaitRoute(block3, "via 172.30.0.2")
	w1.awaitRoute("10.66.2.0/26", "")
	w1.awaitRoute(others, "blackhole")
	w1.awaitReady()
}
