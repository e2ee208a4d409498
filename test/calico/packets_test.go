package calico

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/test/await"
)

const (
	block1, block2, block3    = "10.66.0.0/26", "10.66.0.64/26", "10.66.0.128/26"
	pod1, pod2, pod3          = "10.66.0.2", "10.66.0.66", "10.66.0.130"
	block61, block62, block63 = "fd66::/122", "fd66::40/122", "fd66::80/122"
	pod61, pod62, pod63       = "fd66::2", "fd66::42", "fd66::82"
)

// newCluster makes nodes with one pod each: a1 on w1 and so on. It starts no programs and assigns
// no blocks.
func newCluster(t *testing.T, count int, flags ...string) (*site, []*node) {
	t.Helper()
	s := newSite(t)
	var nodes []*node
	for n := range count {
		w := s.addNode(n+1, flags...)
		w.addPod(fmt.Sprint("a", n+1), []string{pod1, pod2, pod3}[n])
		nodes = append(nodes, w)
	}
	return s, nodes
}

func (s *site) start(nodes ...*node) {
	s.t.Helper()
	for _, w := range nodes {
		s.putBlock([]string{block1, block2, block3}[w.n-1], w.name, nil)
	}
	for _, w := range nodes {
		w.start()
	}
}

func TestPodsReachEachOther(t *testing.T) {
	s, nodes := newCluster(t, 3)
	w1, w2, w3 := nodes[0], nodes[1], nodes[2]
	w1.addPod("b1", pod61)
	w2.addPod("b2", pod62)
	s.putBlock(block1, "w1", nil) // blocks before peers
	s.putBlock(block61, "w1", nil)
	s.putBlock(block2, "w2", nil)
	for _, w := range nodes {
		w.start()
	}
	s.awaitPing("a1", pod2)
	s.putBlock(block62, "w2", nil) // peers before blocks
	s.putBlock(block3, "w3", nil)
	s.awaitPing("b1", pod62)
	s.awaitPing("a2", pod3)
	s.awaitPing("a3", pod1)
	w1.awaitReady()

	// Packets to unused addresses of the node's block are dropped instead of following the default
	// route.
	w1.awaitRoute(block1, "blackhole")

	// An affinity without its block is a claim.
	s.put("/calico/ipam/v2/host/w3/ipv4/block/10.66.1.0-26", `{"state":"confirmed"}`)
	w1.awaitRoute("10.66.1.0/26", "via 172.30.0.3 dev eth1")
	s.put("/calico/ipam/v2/host/w3/ipv4/block/10.66.1.0-26", `{"state":"pendingDeletion"}`)
	w1.awaitRoute("10.66.1.0/26", "")

	// A pod of w3 borrows an address from a block of w2. w1 and w2 route it to w3.
	w3.addPod("c3", "10.66.0.70")
	s.putBlock(block2, "w2", map[int]string{2: "w2", 6: "w3"})
	s.awaitPing("a1", "10.66.0.70")
	s.awaitPing("a2", "10.66.0.70")
	s.putBlock(block2, "w2", map[int]string{2: "w2"})
	w1.awaitRoute("10.66.0.70", "")
	w2.awaitRoute("10.66.0.70", "")
	s.awaitPing("a1", pod2)

	// The block moves to another host.
	s.putBlock("10.66.0.192/26", "w2", nil)
	w1.awaitRoute("10.66.0.192/26", "via 172.30.0.2 dev eth1")
	s.putBlock("10.66.0.192/26", "w3", nil)
	w1.awaitRoute("10.66.0.192/26", "via 172.30.0.3 dev eth1")
	w3.awaitRoute("10.66.0.192/26", "blackhole")
	w2.awaitRoute("10.66.0.192/26", "via 172.30.0.3 dev eth1")
	s.delete(blockKey("10.66.0.192/26"))
	for _, w := range nodes {
		w.awaitRoute("10.66.0.192/26", "")
	}

	// Foreign routes stay; the program restores its own routes.
	w1.ip("route", "add", "10.99.0.0/16", "via", "172.30.0.9")
	w1.ip("route", "del", block2)
	w1.awaitRoute(block2, "via 172.30.0.2")
	if got := w1.ip("route", "show", "10.99.0.0/16"); got == "" {
		t.Error("somebody else's route is gone")
	}

	w2.stop()
	await.That(t, "w1 forgets w2", func() error {
		if got := w1.ip("route", "show", block2); got != "" {
			return errors.New(got)
		}
		return nil
	})
	s.awaitPing("a1", pod3)

	w2.n = 22
	w2.start()
	w1.awaitRoute(block2, "via 172.30.0.22")
	s.awaitPing("a1", pod2)
}

// An uplink with an address gets no other one and keeps it.
func TestUplinkHasAnAddress(t *testing.T) {
	s, nodes := newCluster(t, 2)
	w1 := nodes[0]
	w1.hasAddress = true
	w1.ip("addr", "add", "172.30.0.1/24", "dev", "eth1")
	w1.ip("link", "set", "eth1", "up")
	s.start(nodes...)
	s.awaitPing("a2", pod1)
	w1.awaitReady()
	w1.stop()
	if got := w1.ip("-4", "addr", "show", "dev", "eth1"); !strings.Contains(got, "172.30.0.1/24") {
		t.Errorf("the address is gone: %s", got)
	}
}

// A failed route is reported, and the other routes are programmed.
func TestRouteThatFails(t *testing.T) {
	s, nodes := newCluster(t, 2)
	w1 := nodes[0]
	w1.ip("link", "set", "eth1", "up")
	w1.ip("route", "add", block2, "dev", "lo")
	s.putBlock(block3, "w2", nil)
	s.start(nodes...)
	w1.awaitRoute(block3, "via 172.30.0.2")
	await.That(t, "w1 says which route is not in place", func() error {
		var answer struct{ Warnings []string }
		err := w1.get("/readiness", &answer)
		if text := strings.Join(answer.Warnings, "\n"); err == nil && !strings.Contains(text, "dst/"+block2) {
			err = fmt.Errorf("it says %q", text)
		}
		return err
	})
	w1.ip("route", "del", block2, "dev", "lo")
	w1.awaitRoute(block2, "via 172.30.0.2")
	await.That(t, "w1 has nothing to say", func() error {
		var answer struct{ Warnings []string }
		err := w1.get("/readiness", &answer)
		if err == nil && len(answer.Warnings) > 0 {
			err = fmt.Errorf("it says %q", answer.Warnings)
		}
		return err
	})
}

// Packets flow without an agent and without etcd. The programs then catch up on changes.
func TestAgentAndEtcdComeBack(t *testing.T) {
	s, nodes := newCluster(t, 3)
	w1 := nodes[0]
	s.start(nodes...)
	s.awaitPing("a1", pod2)
	s.awaitPing("a1", pod3)
	w1.awaitReady()

	w1.stop()
	if got := w1.ip("route", "show", block2); !strings.Contains(got, "via 172.30.0.2") {
		t.Errorf("without its agent, the node has lost its routes: %q", got)
	}
	s.delete(blockKey(block3))
	s.putBlock("10.66.2.0/26", "w3", nil)
	w1.start()
	w1.awaitRoute("10.66.2.0/26", "via 172.30.0.3")
	w1.awaitRoute(block3, "")
	w1.awaitReady()
	// The valid route was recognised, not recreated.
	var txns []struct {
		Executed []struct{ Operation, Key string }
	}
	if err := w1.get("/scheduler/txn-history", &txns); err != nil {
		t.Fatal(err)
	}
	ops := fmt.Sprint(txns)
	if !strings.Contains(ops, "dst/10.66.2.0/26") || strings.Contains(ops, "CREATE config/vpp/v2/route/if/eth1/vrf/0/dst/"+block2) {
		t.Errorf("operations after the restart: %s", ops)
	}

	s.awaitPing("a1", pod2) // w2 may have removed the route when w1's lease expired
	s.killEtcd()
	await.That(t, "w1 says that etcd is away", func() error {
		if err := w1.get("/readiness", nil); err == nil || !strings.Contains(err.Error(), "etcd") {
			return fmt.Errorf("it says: %v", err)
		}
		return nil
	})
	if err := s.ping("a1", pod2); err != nil {
		t.Error("etcd unreachable: ", err)
	}
	s.startEtcd()
	s.awaitEtcd()
	s.putBlock(block3, "w3", nil)
	w1.awaitRoute(block3, "via 172.30.0.3")
	w1.awaitReady()
	s.awaitPing("a1", pod3)

	// An etcd without data does not mean that all blocks are gone.
	s.killEtcd()
	if err := os.RemoveAll(filepath.Join(s.dir, "etcd")); err != nil {
		t.Fatal(err)
	}
	s.startEtcd()
	s.awaitEtcd()
	for _, host := range []string{"w1", "w2", "w3"} {
		await.That(t, host+" publishes its address again", func() error {
			_, found, err := s.db.Get(t.Context(), "/vpp-calico/hosts/"+host+"/peerip/ipv4/1")
			if err == nil && !found {
				err = errors.New("it is not there")
			}
			return err
		})
	}
	for _, pod := range []string{pod2, pod3} {
		if err := s.ping("a1", pod); err != nil {
			t.Error("after etcd was wiped: ", err)
		}
	}
	// New data applies at once, missing data only after a delay.
	s.putBlock(block1, "w1", nil)
	s.putBlock(block2, "w3", nil)
	w1.awaitRoute(block2, "via 172.30.0.3")
	w1.awaitRoute(block3, "")
	w1.awaitRoute("10.66.2.0/26", "")
}

func TestLookWithoutTouching(t *testing.T) {
	s := newSite(t)
	w1 := s.addNode(1)
	s.putBlock(block1, "w1", nil)
	s.putBlock(block2, "w2", map[int]string{1: "w3"})
	s.put("/vpp-calico/hosts/w2/peerip/ipv4/1", "172.30.0.2")
	out, err := w1.command(append(w1.arguments(), "--once")...).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := "10.66.0.0/26 drop (own block)\n10.66.0.64/26 via 172.30.0.2 (w2)\n# no address of host w3 is known: no routes to [10.66.0.65/32]\n"
	if string(out) != want {
		t.Errorf("--once: got\n%s\nwant\n%s", out, want)
	}
	w1.flags = []string{"--dry-run"}
	w1.start()
	await.That(t, "dry run", func() error {
		if got := w1.log.String(); !strings.Contains(got, "10.66.0.64/26 via 172.30.0.2") {
			return errors.New(got)
		}
		return nil
	})
	if got := w1.ip("route"); got != "" {
		t.Errorf("routes: %s", got)
	}
	if _, found, _ := s.db.Get(t.Context(), "/vpp-calico/hosts/w1/peerip/ipv4/1"); found {
		t.Error("the address was published")
	}
}
