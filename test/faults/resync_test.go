package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"
)

// extra is the number of additional interfaces on node1 that a resync must create or remove.
const extra = 12 // pairs of devices

// TestResync kills the agent after its startup resync has made a number of devices.
func TestResync(t *testing.T) {
	t.Parallel()
	s := newSite(t, "rs")
	f := begin(t, s, "Agent killed at each step of a resync",
		fmt.Sprintf("While the agent is down, %d interfaces are requested through etcd, or no longer. The agent is killed at once, when its "+
			"socket appears, or after some devices were made or removed.", extra))
	etcd := s.etcd(t)
	f.row.Until = "until ready and complete, at most, after the uninterrupted start"
	kills := 0
	for _, step := range []int{startedStep, socketStep, 1, 2, 3, 5, 8, 13, 2*extra - 1} {
		for _, wanted := range []bool{true, false} {
			s.kill(t, "node1")
			want(t, etcd, wanted)
			if s.killAtStep(t, "node1", step) {
				kills++
			}
			f.heal()
			s.start(t, "node1")
			await.That(t, "the extra interfaces are as wanted", func() error { return s.extraInterfaces(t, wanted) })
			f.row.Healed = max(f.row.Healed, time.Since(f.healing))
			f.flow(3)
		}
	}
	if kills < 10 {
		t.Errorf("only %d starts could be interrupted", kills)
	}
	f.row.Kept = fmt.Sprintf("Interrupted %d times. Each time, the next start completed the work, and the following resync found nothing to do.", kills)
	f.end()
}

func want(t *testing.T, etcd *clientv3.Client, wanted bool) {
	t.Helper()
	for i := range extra {
		key := models.NodePrefix("node1") + models.VPPInterfaceKey(fmt.Sprintf("extra%d", i))
		value := fmt.Sprintf(`{"name": "extra%d", "type": "SOFTWARE_LOOPBACK", "enabled": true, "ip_addresses": ["10.77.%d.1/24"]}`, i, i)
		var err error
		if wanted {
			_, err = etcd.Put(t.Context(), key, value)
		} else {
			_, err = etcd.Delete(t.Context(), key)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (s *site) extraInterfaces(t *testing.T, wanted bool) error {
	out, err := s.Exec(t.Context(), "node1", "ip", "-4", "-o", "addr")
	if err != nil {
		return err
	}
	n := 0
	if wanted {
		n = extra
	}
	if have := strings.Count(out, " 10.77."); have != n {
		return fmt.Errorf("%d addresses, want %d", have, n)
	}
	if out, err = s.Exec(t.Context(), "node1", "ip", "-o", "link"); err != nil {
		return err
	}
	// Aliases identify the extra interfaces.
	if have := strings.Count(out, "contiv:vpp/extra"); have != n {
		return fmt.Errorf("%d devices, want %d", have, n)
	}
	return s.settled(t, "node1")
}

// Steps other than a number of created or removed devices.
const (
	startedStep = -1
	socketStep  = -2
)

// killAtStep starts the agent of a node, kills it at a step of its resync and leaves it down. It
// returns false if the resync finished first.
func (s *site) killAtStep(t *testing.T, node string, step int) (interrupted bool) {
	t.Helper()
	changes := s.watchDevices(t, node)
	ready := s.starting(t, node)
	p := s.process(t, node)
	became := make(chan error, 1)
	go func() { became <- ready() }()
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	interrupted = true
	for seen := 0; seen < step; {
		select {
		case <-changes:
			seen++
		case err := <-became:
			if err != nil {
				t.Fatal(err)
			}
			// Discard notifications that were received but not counted.
			interrupted = false
			seen = step
		case <-ctx.Done():
			t.Fatalf("no step %d of the resync", step)
		}
	}
	if step == socketStep {
		await.That(t, "the socket of the agent is there", func() error {
			_, err := os.Stat(s.AgentSocket(node))
			return err
		})
	}
	if err := killProcess(p); err != nil {
		t.Fatal(err)
	}
	if interrupted {
		<-became
	}
	s.kill(t, node)
	return interrupted
}

// killProcess sends SIGKILL without the lock of the lab, which is waiting for the readiness of the
// process.
func killProcess(p lab.Process) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if !p.Alive() {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

// watchDevices reports each device that is added to or removed from the namespace of a node until
// the test ends.
func (s *site) watchDevices(t *testing.T, node string) <-chan string {
	t.Helper()
	ns, err := netns.GetFromPath(lab.NetnsPath(s.node(t, node).Netns))
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	updates, done := make(chan netlink.LinkUpdate), make(chan struct{})
	if err := netlink.LinkSubscribeAt(ns, updates, done); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { close(done) })
	known := map[int]bool{}
	handle, err := netlink.NewHandleAt(ns)
	if err != nil {
		t.Fatal(err)
	}
	defer handle.Close()
	links, err := handle.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		known[l.Attrs().Index] = true
	}
	changes := make(chan string, 1000)
	go func() {
		for u := range updates {
			exists := u.Header.Type == unix.RTM_NEWLINK
			if exists == known[u.Attrs().Index] {
				continue // only changed
			}
			known[u.Attrs().Index] = exists
			select {
			case changes <- u.Attrs().Name:
			default: // the receiver has stopped
			}
		}
	}()
	return changes
}
