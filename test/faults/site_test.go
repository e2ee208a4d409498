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

// site is a lab for several consecutive faults with the pod "here" on node1, "near" on the same
// node and "far" on node2.
type site struct {
	*lab.Lab
	here, near, far lab.Pod
	outside         lab.Endpoint
}

func newSite(t *testing.T, name string) *site {
	t.Helper()
	if binaries == "" {
		t.Skip("the lab makes network namespaces; run the tests as root")
	}
	return newSiteWith(t, name, lab.Options{BinDir: binaries})
}

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

func (s *site) node(t *testing.T, name string) lab.Node {
	t.Helper()
	n, err := s.state(t).Node(name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

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

func (s *site) start(t *testing.T, node string) {
	t.Helper()
	if err := s.StartAgent(t.Context(), node); err != nil {
		t.Fatal(err)
	}
}

// starting starts a node's agent. ready waits until it is ready.
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

// freeze stops a process of the lab until thaw or the end of the test.
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

func (s *site) bolt(node string) string { return s.Path("nodes", node, "bolt.db") }

func (s *site) pod(t *testing.T, name, node string) lab.Pod {
	t.Helper()
	return labtest.AddPods(t, s.Lab, lab.PodSpec{Name: name, Node: node})[0]
}

// connected measures connectivity between the pods and the outside host once.
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

// settle waits for full connectivity, for all agents to know all nodes and the Kubernetes objects
// of their pods, and for all values to be configured.
func (s *site) settle(t *testing.T) {
	t.Helper()
	await.That(t, "everybody reaches everybody", func() error { return s.connected(t) })
	for _, n := range s.state(t).Nodes {
		await.That(t, n.Name+" is settled", func() error { return s.settled(t, n.Name) })
	}
	labtest.RequireQuiet(t, s.Lab)
}

// settled returns an error if an agent is not ready, has no etcd, or has values that are not
// configured.
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

// health returns the remark of contivctl status: the reason why the agent is not ready or has no
// etcd, "" if it is healthy.
func (s *site) health(ctx context.Context, node string) string {
	var h struct{ Error, Database string }
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := s.Agent(node).Get(ctx, "/readiness", &h); err != nil {
		return err.Error()
	}
	return h.Database
}

// etcd returns a client of the lab's etcd that bypasses the proxies.
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

func dialIn(ctx context.Context, netns, address string) (conn net.Conn, err error) {
	err = lab.InNetns(netns, func() error {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", address)
		return err
	})
	return conn, err
}
