package faults

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"
)

// site is a lab for several faults, one after the other: a pod "here" on node1,
// "near" beside it and "far" on node2.
type site struct {
	*lab.Lab
	here, near, far lab.Pod
	outside         lab.Endpoint
}

// newSite makes a lab that is removed when the test ends.
func newSite(t *testing.T, name string) *site {
	t.Helper()
	if binaries == "" {
		t.Skip("the lab makes network namespaces; run the tests as root")
	}
	return newSiteWith(t, name, lab.Options{BinDir: binaries})
}

// newSiteWith makes the lab with options.
func newSiteWith(t *testing.T, name string, o lab.Options) *site {
	t.Helper()
	o.Name, o.StartTimeout = fmt.Sprintf("f%s%d", name, os.Getpid()), time.Minute
	s := &site{Lab: labtest.Up(t, o)}
	pods, err := s.AddPods(t.Context(), 3,
		lab.PodSpec{Name: "here", Node: "node1"}, lab.PodSpec{Name: "near", Node: "node1"}, lab.PodSpec{Name: "far", Node: "node2"})
	if err != nil {
		t.Fatal(err)
	}
	s.here, s.near, s.far = pods[0], pods[1], pods[2]
	st := s.state(t)
	if s.outside, err = st.Endpoint(lab.OutsideName); err != nil {
		t.Fatal(err)
	}
	s.settle(t)
	return s
}

func (s *site) state(t *testing.T) *lab.State {
	t.Helper()
	st, err := s.State()
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// node returns a node of the lab.
func (s *site) node(t *testing.T, name string) lab.Node {
	t.Helper()
	n, err := s.state(t).Node(name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// process returns the process of a node's agent.
func (s *site) process(t *testing.T, node string) lab.Process {
	t.Helper()
	return s.state(t).Processes["agent/"+node]
}

func (s *site) kill(t *testing.T, node string) {
	t.Helper()
	if err := s.KillAgent(t.Context(), node); err != nil {
		t.Fatal(err)
	}
}

// start returns when the node's agent is ready.
func (s *site) start(t *testing.T, node string) {
	t.Helper()
	if err := s.StartAgent(t.Context(), node); err != nil {
		t.Fatal(err)
	}
}

// starting starts a node's agent without waiting until it is ready; the returned
// function does.
func (s *site) starting(t *testing.T, node string) (ready func() error) {
	t.Helper()
	before := s.process(t, node).PID
	result := make(chan error, 1)
	go func() { result <- s.StartAgent(context.Background(), node) }()
	await.That(t, "the agent of "+node+" is started", func() error {
		if p := s.process(t, node); p.PID == before || !p.Alive() {
			return errors.New("not yet")
		}
		return nil
	})
	done := false
	wait := func() error {
		if done {
			return nil
		}
		done = true
		return <-result
	}
	t.Cleanup(func() { wait() })
	return wait
}

// freeze stops a process of the lab until thaw is called, or the test ends.
func (s *site) freeze(t *testing.T, role string) (thaw func()) {
	t.Helper()
	p, ok := s.state(t).Processes[role]
	if !ok {
		t.Fatalf("the lab has no process %s", role)
	}
	signal := func(sig unix.Signal) {
		if err := unix.Kill(p.PID, sig); err != nil {
			t.Errorf("%s: %v: %v", role, sig, err)
		}
	}
	signal(unix.SIGSTOP)
	thaw = sync.OnceFunc(func() { signal(unix.SIGCONT) })
	t.Cleanup(thaw)
	return thaw
}

// bolt is the path of a node's local file.
func (s *site) bolt(node string) string { return s.Path("nodes", node, "bolt.db") }

// pod adds a pod that is removed when the test ends.
func (s *site) pod(t *testing.T, name, node string) lab.Pod {
	t.Helper()
	return labtest.AddPods(t, s.Lab, lab.PodSpec{Name: name, Node: node})[0]
}

// connected measures, once, between the pods and the outside.
func (s *site) connected(t *testing.T, pods ...lab.Pod) error {
	names := []string{lab.OutsideName}
	for _, p := range append(pods, s.here, s.near, s.far) {
		names = append(names, p.ID())
	}
	m, err := s.Matrix(t.Context(), names...)
	if err != nil {
		t.Fatal(err)
	}
	return m.Err()
}

// settle awaits that everybody reaches everybody, that all agents know all nodes
// and the Kubernetes object of each of their pods, and that nothing is left to do.
func (s *site) settle(t *testing.T) {
	t.Helper()
	await.That(t, "everybody reaches everybody", func() error { return s.connected(t) })
	for _, n := range s.state(t).Nodes {
		await.That(t, n.Name+" is settled", func() error { return s.settled(t, n.Name) })
	}
	labtest.RequireQuiet(t, s.Lab)
}

// settled tells what is not well with an agent: it is not ready, or without etcd,
// or has values that are not configured.
func (s *site) settled(t *testing.T, node string) error {
	if text := s.health(t.Context(), node); text != "" {
		return errors.New(text)
	}
	open, err := s.Agent(node).NotConfigured(t.Context())
	if err == nil && len(open) > 0 {
		err = errors.New(strings.Join(open, "\n"))
	}
	return err
}

// health returns what contivctl status shows as remark: why the agent is not
// ready, and why it is without etcd; "" if all is well.
func (s *site) health(ctx context.Context, node string) string {
	var h struct{ Error, Database string }
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := s.Agent(node).Get(ctx, "/readiness", &h); err != nil {
		return err.Error()
	}
	return h.Database
}

// etcd returns a client of the lab's etcd, past all proxies.
func (s *site) etcd(t *testing.T) *clientv3.Client {
	t.Helper()
	c, err := s.Etcd()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

var etcdAddress = net.JoinHostPort(lab.RouterAddress.Addr().String(), "32379")

// dialIn connects from a network namespace.
func dialIn(ctx context.Context, netns, address string) (conn net.Conn, err error) {
	err = lab.InNetns(netns, func() error {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", address)
		return err
	})
	return conn, err
}
