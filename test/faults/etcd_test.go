package faults

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/plugins/ipam"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestDatabase(t *testing.T) {
	t.Parallel()
	s := newSite(t, "db")
	p := s.newProxy(t, "node1")
	s.kill(t, "node1")
	s.start(t, "node1")
	s.settle(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *site, *proxy)
	}{
		{"down at start", downAtStart},
		{"hangs at start", hangsAtStart},
		{"down", isDown},
		{"hangs", hangs},
		{"slow", slow},
		{"compacted", compacted},
		{"wiped", wiped},
		{"wiped before the start", wipedBeforeStart},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, s, p) })
		p.set(pass, 0)
	}
}

// TestDatabaseOfANewNode uses nodes without a mirror.
func TestDatabaseOfANewNode(t *testing.T) {
	t.Parallel()
	s := newSite(t, "new")
	p := s.newProxy(t, "node2")
	s.kill(t, "node2")
	s.start(t, "node2")
	s.settle(t)
	if err := s.DelPod(t.Context(), s.far.ID()); err != nil {
		t.Fatal(err)
	}
	s.far = s.near
	t.Run("down at start, no mirror", func(t *testing.T) { downWithoutMirror(t, s, p) })
	t.Run("never comes, no mirror", func(t *testing.T) { neverComes(t, s, p) })
}

func downAtStart(t *testing.T, s *site, p *proxy) {
	f := begin(t, s, "etcd is down at start", "The agent is started while etcd refuses connections. After `delayLocalResync` (5 s), it starts from its mirror, and pods can be added.")
	f.startsWithoutEtcd(p, refuse)
	f.seesLog("node1", "starts from the local mirror")
	f.end()
}

func hangsAtStart(t *testing.T, s *site, p *proxy) {
	f := begin(t, s, "etcd hangs at start", "The agent is started while etcd accepts connections but never answers.")
	f.startsWithoutEtcd(p, hang)
	f.end()
}

// startsWithoutEtcd starts the agent while the proxy is in a faulty mode, and then repairs the
// proxy.
func (f *fault) startsWithoutEtcd(p *proxy, m mode) {
	t := f.t
	p.set(m, 0)
	f.kill(t, "node1")
	f.heal()
	f.start(t, "node1")
	f.row.Healed, f.row.Until = time.Since(f.healing), "until ready, without etcd"
	f.seesHealth("node1", "out of reach")
	if err := f.connected(t, f.pod(t, "late", "node1")); err != nil {
		t.Error(err)
	}
	p.set(pass, 0)
	back := time.Now()
	await.That(t, "etcd is followed again", func() error { return f.settled(t, "node1") })
	f.row.Kept = fmt.Sprintf("When etcd is back, the agent follows it after %v.", round(time.Since(back)))
}

func downWithoutMirror(t *testing.T, s *site, p *proxy) {
	f := begin(t, s, "etcd is down at start, no mirror", "A node without a local file starts while etcd refuses connections. It has no ID, and waits for etcd.")
	s.kill(t, "node2")
	p.set(refuse, 0)
	if err := os.Remove(s.bolt("node2")); err != nil {
		t.Fatal(err)
	}
	ready := s.starting(t, "node2")
	f.seesHealth("node2", "startup resync is not done yet")
	f.seesLog("node2", "the local mirror is empty")
	f.heal()
	p.set(pass, 0)
	if err := ready(); err != nil {
		t.Fatal(err)
	}
	f.row.Healed, f.row.Until = time.Since(f.healing), "until ready, after etcd was back"
	if err := s.connected(t, s.pod(t, "first", "node2")); err != nil {
		t.Error(err)
	}
	f.end()
}

func neverComes(t *testing.T, s *site, p *proxy) {
	f := begin(t, s, "etcd never comes, no mirror", "As before, but etcd stays away. The agent ends at the `startupResyncDeadline` (30 s, here 8 s), and its supervisor starts it again.")
	s.kill(t, "node2")
	p.set(refuse, 0)
	conf := s.Path("nodes", "node2", "controller.conf")
	before, err := os.ReadFile(conf)
	if err == nil {
		err = errors.Join(os.Remove(s.bolt("node2")), os.WriteFile(conf, []byte("startupResyncDeadline: 8s\n"), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.starting(t, "node2")(); err == nil || !strings.Contains(err.Error(), "has ended before it was ready") {
		t.Fatalf("starting the agent: %v", err)
	}
	f.seesLog("node2", "contiv-agent:")
	if times := bytes.Count(f.readLog("node2")[f.logs["node2"]:], []byte("startup resync has not executed")); times != 1 {
		t.Errorf("the error that ends the agent is in its log %d times", times)
	}
	if err := os.WriteFile(conf, before, 0o600); err != nil {
		t.Fatal(err)
	}
	p.set(pass, 0)
	f.heal()
	s.start(t, "node2")
	f.row.Healed, f.row.Until = time.Since(f.healing), "until ready, after its start with etcd"
	f.end()
}

func isDown(t *testing.T, s *site, p *proxy) {
	f := begin(t, s, "etcd is down", "etcd refuses connections. Meanwhile, a pod is added and another one removed.")
	p.set(refuse, 0)
	f.seesHealth("node1", "out of reach")
	f.seesLog("node1", "Connection to the database lost")
	began := time.Now()
	if err := s.DelPod(t.Context(), s.pod(t, "gone", "node1").ID()); err != nil {
		t.Error(err)
	}
	late := s.pod(t, "late", "node1")
	f.row.Kept = fmt.Sprintf("Two ADDs and a DEL, with their namespaces, took %v.", round(time.Since(began)))
	if err := s.connected(t, late); err != nil {
		t.Error(err)
	}
	f.heal()
	p.set(pass, 0)
	f.row.Until = "until the changes made meanwhile had arrived"
	f.healed("the late pod is known from Kubernetes", func() error { return s.heldByKubernetes(t, late) })
	f.end()
}

func hangs(t *testing.T, s *site, p *proxy) {
	f := begin(t, s, "etcd hangs", "Connections to etcd stay open, but no data passes. Meanwhile, a pod is added and another one removed.")
	p.set(hang, 0)
	began := time.Now()
	if err := s.DelPod(t.Context(), s.pod(t, "gone", "node1").ID()); err != nil {
		t.Error(err)
	}
	late := s.pod(t, "late", "node1")
	if err := s.connected(t, late); err != nil {
		t.Error(err)
	}
	f.row.Kept = fmt.Sprintf("Two ADDs and a DEL, with their namespaces, took %v.", round(time.Since(began)))
	f.seesHealth("node1", "out of reach")
	f.row.Kept += fmt.Sprintf(" The agent noticed the silence after %v.", round(time.Since(began)))
	f.seesLog("node1", "Connection to the database lost")
	f.heal()
	p.set(pass, 0)
	f.row.Until = "until the changes made meanwhile had arrived"
	f.healed("the late pod is known from Kubernetes", func() error { return s.heldByKubernetes(t, late) })
	f.end()
}

func slow(t *testing.T, s *site, p *proxy) {
	const delay = 600 * time.Millisecond
	f := begin(t, s, "etcd is slow", fmt.Sprintf("All data between etcd and the agent is delayed by %v. A pod is added, and the agent is killed and started.", delay))
	p.set(pass, delay)
	began := time.Now()
	late := s.pod(t, "late", "node1")
	f.row.Kept = fmt.Sprintf("A pod was connected in %v, because nothing waits for etcd.", round(time.Since(began)))
	if err := s.connected(t, late); err != nil {
		t.Error(err)
	}
	await.That(t, "the late pod is known from Kubernetes", func() error { return s.heldByKubernetes(t, late) })
	f.row.Kept += fmt.Sprintf(" Its Kubernetes object arrived after %v.", round(time.Since(began)))
	s.kill(t, "node1")
	f.heal()
	s.start(t, "node1")
	f.row.Until = "until ready, with etcd"
	f.healed("etcd is followed", func() error { return s.settled(t, "node1") })
	p.set(pass, 0)
	f.end()
}

func compacted(t *testing.T, s *site, p *proxy) {
	f := begin(t, s, "etcd is compacted", "While the agent has no connection to etcd, a pod is added and another one removed, and etcd compacts its history.")
	gone := s.pod(t, "gone", "node2")
	p.set(refuse, 0)
	f.seesHealth("node1", "out of reach")
	if err := s.DelPod(t.Context(), gone.ID()); err != nil {
		t.Fatal(err)
	}
	late := s.pod(t, "late", "node1")
	etcd := s.etcd(t)
	key := models.KSRPrefix + "k8s/pod/late/namespace/default"
	var revision int64
	await.That(t, "etcd has the late pod with its address", func() error {
		r, err := etcd.Get(t.Context(), key)
		if err == nil && (len(r.Kvs) == 0 || !strings.Contains(string(r.Kvs[0].Value), late.Address.String())) {
			return errors.New("not yet")
		}
		if err == nil {
			revision = r.Header.Revision
		}
		return err
	})
	if _, err := etcd.Compact(t.Context(), revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	f.heal()
	p.set(pass, 0)
	f.row.Until = "until the changes made meanwhile had arrived"
	f.healed("the late pod is known from Kubernetes", func() error { return s.heldByKubernetes(t, late) })
	f.end()
}

func wiped(t *testing.T, s *site, _ *proxy) {
	f := begin(t, s, "etcd is wiped", "etcd is started without data. The agents keep the network, write their IDs back and trust etcd again after KSR has reflected Kubernetes.")
	if err := s.StopEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(s.Path("etcd")); err != nil {
		t.Fatal(err)
	}
	f.heal()
	if err := s.StartEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.seesLog("node1", "lost its data")
	f.row.Until = "until both agents trusted etcd again"
	f.healed("etcd is complete, and the agents follow it", func() error {
		return errors.Join(s.settled(t, "node1"), s.settled(t, "node2"))
	})
	s.filledAgain(t)
	f.row.Kept = "Node IDs and addresses did not change."
	f.end()
}

// wipedBeforeStart starts an agent with an etcd that lost its data while the agent was down. KSR
// refills it only later.
func wipedBeforeStart(t *testing.T, s *site, _ *proxy) {
	const away = 35 * time.Second // longer than an agent waits for other agents
	f := begin(t, s, "etcd is wiped before the start", fmt.Sprintf("As before, while the agent is down. KSR is frozen for %v.", away))
	s.kill(t, "node1")
	if err := s.StopEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	thaw := s.freeze(t, "ksr")
	if err := os.RemoveAll(s.Path("etcd")); err != nil {
		t.Fatal(err)
	}
	if err := s.StartEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	s.start(t, "node1")
	f.row.Kept = fmt.Sprintf("The agent was ready after %v, with its mirror, and added a pod. Node IDs and addresses did not change.", round(time.Since(began)))
	f.seesHealth("node1", "lost its data")
	f.seesLog("node1", "lost its data")
	late := s.pod(t, "late", "node1")
	if err := s.connected(t, late); err != nil {
		t.Error(err)
	}
	for time.Since(began) < away {
		f.flow(20)
	}
	if err := s.connected(t, late); err != nil {
		t.Error(err)
	}
	thaw()
	f.heal()
	f.row.Until = "until both agents trusted etcd again, after KSR was back"
	f.healed("etcd is complete, and the agents follow it", func() error {
		return errors.Join(s.settled(t, "node1"), s.settled(t, "node2"))
	})
	s.filledAgain(t)
	f.end()
}

// filledAgain checks that etcd contains all data of KSR and the agents.
func (s *site) filledAgain(t *testing.T) {
	t.Helper()
	etcd := s.etcd(t)
	r, err := etcd.Get(t.Context(), models.KSRPrefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, kv := range r.Kvs {
		keys = append(keys, strings.TrimPrefix(string(kv.Key), models.KSRPrefix))
	}
	for _, want := range []string{"allocatedIDs/1", "allocatedIDs/2", "k8s/node/node1", "k8s/node/node2", "k8s/pod/here/namespace/default", "k8s/pod/far/namespace/default"} {
		if !strings.Contains(strings.Join(keys, "\n"), want) {
			t.Errorf("etcd has no %s, but %v", want, keys)
		}
	}
}

// heldByKubernetes returns nil if the agent knows the address of a pod from the pod's Kubernetes
// object.
func (s *site) heldByKubernetes(t *testing.T, p lab.Pod) error {
	var report ipam.AllocationsReport
	if err := s.Agent(p.Node).Get(t.Context(), ipam.URL, &report); err != nil {
		return err
	}
	for _, a := range report.Pods {
		if a.MainIP == p.Address.String() && strings.Contains(strings.Join(a.HeldBy, " "), "kubernetes") {
			return nil
		}
	}
	return fmt.Errorf("not among %v", report.Pods)
}
