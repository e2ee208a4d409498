package events

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

func newNamespace(t *testing.T, name string) netns.NsHandle {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root: run the test as root")
	}
	name = fmt.Sprintf("ev%d%s", os.Getpid(), name)
	ip(t, "netns add "+name)
	t.Cleanup(func() { ip(t, "netns del "+name) })
	ns, err := netns.GetFromName(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	return ns
}

func ip(t *testing.T, command string) {
	t.Helper()
	if out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", command, err, out)
	}
}

func change(t *testing.T, ns netns.NsHandle, n int) {
	t.Helper()
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	lo, err := h.LinkByIndex(1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := h.LinkSetMTU(lo, 2000+i); err != nil {
			t.Fatal(err)
		}
	}
}

func subscribe(t *testing.T, ns netns.NsHandle, o Options) *Subscription {
	t.Helper()
	o.Groups = []uint{unix.RTNLGRP_LINK}
	s, err := Subscribe(ns, unix.NETLINK_ROUTE, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestReceive(t *testing.T) {
	ns := newNamespace(t, "")
	s := subscribe(t, ns, Options{})
	if _, err := s.Receive(time.Now().Add(time.Millisecond)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("with nothing to receive: %v", err)
	}
	if _, some, err := s.Queued(); some || err != nil {
		t.Errorf("with nothing queued: %v, %v", some, err)
	}
	change(t, ns, 1)
	d, err := s.Receive(time.Time{})
	if err != nil || len(d.Messages) == 0 || d.Messages[0].Header.Type != unix.RTM_NEWLINK || d.Namespace != OwnNamespace {
		t.Errorf("received %v, %v", d, err)
	}
	s.Close()
	if _, err := s.Receive(time.Time{}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestCloseEndsReceive(t *testing.T) {
	s := subscribe(t, newNamespace(t, ""), Options{})
	ended := make(chan error)
	go func() {
		_, err := s.Receive(time.Time{})
		ended <- err
	}()
	s.Close()
	if err := <-ended; !errors.Is(err, os.ErrClosed) {
		t.Errorf("Receive ended with %v", err)
	}
}

// Collect flushes at the start, after events, and when flush requests it, until Close.
func TestCollect(t *testing.T) {
	ns := newNamespace(t, "")
	lose := make(chan error, 1)
	s := subscribe(t, ns, Options{Fault: func() error {
		select {
		case err := <-lose:
			return err
		default:
			return nil
		}
	}})
	flushes, noted := make(chan int), 0
	ended := make(chan error, 1)
	again := time.Millisecond // once
	go func() {
		ended <- s.Collect(time.Millisecond, func(d Datagram, lost bool) bool {
			noted += len(d.Messages)
			if lost {
				noted += 100
			}
			return true
		}, func() time.Duration {
			flushes <- noted
			defer func() { noted, again = 0, 0 }()
			return again
		})
	}()
	for _, what := range []string{"at first", "again"} {
		if n := <-flushes; n != 0 {
			t.Errorf("%s: %d events", what, n)
		}
	}
	change(t, ns, 1)
	if n := <-flushes; n == 0 {
		t.Error("flushed without events")
	}
	lose <- ErrLost
	change(t, ns, 2)
	if n := <-flushes; n < 100 {
		t.Errorf("events were lost, and %d noted", n)
	}
	s.Close()
	if err := <-ended; !errors.Is(err, os.ErrClosed) {
		t.Errorf("it ended with %v", err)
	}
}

// A burst that exceeds the buffer is an error, and later events are received.
func TestLostEvents(t *testing.T) {
	ns := newNamespace(t, "")
	s := subscribe(t, ns, Options{Buffer: 1}) // the kernel raises it to its minimum
	change(t, ns, 200)
	lost := false
	for {
		_, some, err := s.Queued()
		lost = lost || errors.Is(err, ErrLost)
		if err != nil && !errors.Is(err, ErrLost) {
			t.Fatal(err)
		}
		if !some {
			break
		}
	}
	if !lost {
		t.Error("nothing was lost")
	}
	change(t, ns, 1)
	if _, err := s.Receive(time.Time{}); err != nil {
		t.Errorf("after the loss: %v", err)
	}
}

func TestEventsOfOtherNamespaces(t *testing.T) {
	own, other := newNamespace(t, "a"), newNamespace(t, "b")
	h, err := netlink.NewHandleAt(own)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := h.SetNetNsIdByFd(int(other), 7); err != nil {
		t.Fatal(err)
	}
	s := subscribe(t, own, Options{AllNamespaces: true})
	if !s.AllNamespaces {
		t.Skip("this kernel reports its own namespace only, or the test lacks NET_BROADCAST: run it as root in the first user namespace")
	}
	change(t, other, 1)
	if d, err := s.Receive(time.Time{}); err != nil || d.Namespace != 7 {
		t.Errorf("received %v, %v", d, err)
	}
}

func TestFault(t *testing.T) {
	ns := newNamespace(t, "")
	calls := 0
	s := subscribe(t, ns, Options{Fault: func() error {
		if calls++; calls == 1 {
			return ErrLost
		}
		return nil
	}})
	change(t, ns, 2)
	if _, err := s.Receive(time.Time{}); !errors.Is(err, ErrLost) {
		t.Errorf("the first datagram: %v", err)
	}
	if d, err := s.Receive(time.Time{}); err != nil || len(d.Messages) == 0 {
		t.Errorf("the second: %v, %v", d, err)
	}
}

func keepChanging(t *testing.T, ns netns.NsHandle) {
	t.Helper()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				change(t, ns, 2)
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-stopped
	})
}

// Receive returns after a lull, or when patience ends.
func TestEventsGather(t *testing.T) {
	ns := newNamespace(t, "")
	s := subscribe(t, ns, Options{})
	s.lull, s.patience = time.Hour, 50*time.Millisecond
	keepChanging(t, ns)
	for range 1000 {
		began := time.Now()
		if _, err := s.Receive(time.Time{}); err != nil {
			t.Fatal(err)
		}
		if time.Since(began) >= s.patience {
			return
		}
	}
	t.Error("events did not gather")
}

func TestCloseEndsGathering(t *testing.T) {
	ns := newNamespace(t, "")
	s := subscribe(t, ns, Options{})
	s.lull, s.patience = time.Hour, time.Hour
	ended := make(chan error)
	go func() {
		for {
			if _, err := s.Receive(time.Time{}); err != nil {
				ended <- err
				return
			}
		}
	}()
	change(t, ns, 2)
	s.Close()
	if err := <-ended; !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed while events gather: %v", err)
	}
}

// Queued events are returned at once.
func TestQueuedEventsDoNotGather(t *testing.T) {
	ns := newNamespace(t, "")
	s := subscribe(t, ns, Options{})
	s.lull, s.patience = time.Hour, time.Hour
	change(t, ns, 2)
	if _, err := s.Receive(time.Time{}); err != nil {
		t.Error(err)
	}
}

// Events do not gather until they are lost.
func TestHalfFullBufferIsRead(t *testing.T) {
	ns := newNamespace(t, "")
	s := subscribe(t, ns, Options{Buffer: 128 << 10})
	if _, size := s.fill(); size == 0 {
		t.Skip("this kernel lacks SO_MEMINFO: run the test on Linux 4.12 or later")
	}
	s.patience = time.Hour
	s.after = func(time.Duration) <-chan time.Time {
		change(t, ns, 2)
		return time.After(0)
	}
	s.gather()
	if filled, size := s.fill(); filled <= size/2 || filled > size*3/4 {
		t.Errorf("events have gathered until %d of %d bytes were used", filled, size)
	}
}
