package policylab

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	"golang.org/x/sys/unix"
)

var starts = flag.Int("starts", 12, "pods that start while another one knocks at their addresses; 1000 for a long run")

const startsAtOnce = 4

// NewPods: a pod in a namespace with policies is not reachable at any time, before, during and
// after its ADD. Another pod continuously sends to the next addresses, and the network stacks of
// new pods count the received packets.
func NewPods(t *testing.T, l *lab.Lab) {
	p := newPolicyLab(t, l)
	p.policy(t, "x", "deny", "{podSelector: {}}")
	p.want(t, "no pod reaches x", func(_, dst, _ string) bool { return !strings.HasPrefix(dst, "x/") })
	add := func(namespace string, number, n int) []lab.Pod {
		var specs []lab.PodSpec
		for i := range n {
			name := fmt.Sprint("new", number+i)
			specs = append(specs, lab.PodSpec{Namespace: namespace, Name: name, Node: "node2", Template: Template(namespace, name, "new")})
		}
		added, err := p.AddPods(t.Context(), startsAtOnce, specs...)
		if err != nil {
			t.Fatal(err)
		}
		return added
	}
	remove := func(pods []lab.Pod) {
		var ids []string
		for _, pod := range pods {
			ids = append(ids, pod.ID())
		}
		if err := p.DelPods(t.Context(), ids...); err != nil {
			t.Fatal(err)
		}
	}
	k := knock(t, p.pods["z/a"].Netns)
	k.aim(p.pods["z/b"].Addresses())
	free := add("z", 0, 1) // an allowed pod is reached
	await.That(t, "a pod without policies is reached", func() error {
		refused := k.refused(free[0].Addresses())
		if n := arrived(t, free[0]); n == 0 || len(refused) < len(free[0].Addresses()) {
			return fmt.Errorf("%d packets arrived, refused: %v", n, refused)
		}
		return nil
	})
	last := free[0].Addresses()
	remove(free)

	began, started := time.Now(), 0
	for number := 1; started < *starts; number += startsAtOnce {
		aimed := k.aim(last)
		pods := add("x", number, startsAtOnce)
		k.round(t)
		last = pods[0].Addresses()
		for _, pod := range pods {
			if !slices.ContainsFunc(pod.Addresses(), func(a netip.Addr) bool { return !aimed[a] }) { // otherwise, the allocation has wrapped around
				started++
			}
			if n, refused := arrived(t, pod), k.refused(pod.Addresses()); n > 0 || len(refused) > 0 {
				t.Errorf("%d packets have reached %s at %v, refused: %v", n, pod.ID(), pod.Addresses(), refused)
			}
			for i, addr := range pod.Addresses() {
				if last[i].Less(addr) {
					last[i] = addr
				}
			}
		}
		remove(pods)
		if number > 2**starts+100 {
			t.Fatalf("%d of %d pods got an address that was knocked at", started, number)
		}
	}
	took := time.Since(began)
	rounds, knocks := k.sent()
	t.Logf("%d pods started in %v; %d packets and connections arrived at their addresses, one of each every %v", started, took, knocks, took/time.Duration(rounds))
}

// arrived returns the number of packets that the stack of a pod has received on closed ports.
func arrived(t *testing.T, pod lab.Pod) (n int) {
	t.Helper()
	var counters [2][]byte
	if err := labtest.Inside(pod.Netns, func() (err error) {
		for i, name := range []string{"snmp", "snmp6"} {
			if counters[i], err = os.ReadFile("/proc/thread-self/net/" + name); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	add := func(text string) {
		value, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		n += value
	}
	for _, counter := range [][2]string{{"Udp:", "NoPorts"}, {"Tcp:", "InSegs"}} { // TCP counts both IP versions
		var names []string
		for line := range bytes.Lines(counters[0]) {
			switch fields := strings.Fields(string(line)); {
			case len(fields) == 0 || fields[0] != counter[0]:
			case names == nil:
				names = fields
			default:
				add(fields[slices.Index(names, counter[1])])
			}
		}
	}
	for line := range bytes.Lines(counters[1]) {
		if fields := strings.Fields(string(line)); len(fields) == 2 && fields[0] == "Udp6NoPorts" {
			add(fields[1])
		}
	}
	return n
}

// knocker sends UDP packets and TCP connection attempts from a pod until the test ends.
type knocker struct {
	mu      sync.Mutex
	targets map[netip.Addr]bool
	answers map[netip.Addr]bool // addresses that refused, so that the pod's stack was reached
	rounds  int
	knocks  int
	ended   bool
	news    *sync.Cond
}

const knockedPort, aimedAt = 9, 16

func knock(t *testing.T, netns string) *knocker {
	// Give the thread a free processor of the Go scheduler at any time.
	before := runtime.GOMAXPROCS(runtime.NumCPU() + 4)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	k := &knocker{targets: map[netip.Addr]bool{}, answers: map[netip.Addr]bool{}}
	k.news = sync.NewCond(&k.mu)
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		err := labtest.Inside(netns, func() error { return k.run(stop) })
		k.mu.Lock()
		defer k.mu.Unlock()
		k.ended = true
		k.news.Broadcast()
		ended <- err
	}()
	t.Cleanup(func() {
		close(stop)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return k
}

func (k *knocker) aim(after []netip.Addr) map[netip.Addr]bool {
	targets := map[netip.Addr]bool{}
	for _, addr := range after {
		for range aimedAt {
			addr = addr.Next()
			targets[addr] = true
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.targets, k.answers = targets, map[netip.Addr]bool{}
	return maps.Clone(targets)
}

func (k *knocker) refused(addrs []netip.Addr) (list []netip.Addr) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, addr := range addrs {
		if k.answers[addr] {
			list = append(list, addr)
		}
	}
	return list
}

func (k *knocker) sent() (rounds, knocks int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rounds, k.knocks
}

// round waits until each target was sent to once more.
func (k *knocker) round(t *testing.T) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	for end := k.rounds + 3; k.rounds < end; k.news.Wait() {
		if k.ended {
			t.Fatal("no packets are sent any more")
		}
	}
}

// run sends every millisecond or two in the network namespace of its thread, which has a high
// priority on busy machines.
func (k *knocker) run(stop <-chan struct{}) error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, -20); err != nil {
		return err
	}
	pause := unix.NsecToTimespec(time.Millisecond.Nanoseconds())
	sockets := map[netip.Addr]net.Conn{}
	defer func() {
		for _, c := range sockets {
			c.Close()
		}
	}()
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		k.mu.Lock()
		targets := slices.Collect(maps.Keys(k.targets))
		k.mu.Unlock()
		var refused []netip.Addr
		var knocks []knockTCP
		for _, addr := range targets {
			c := sockets[addr]
			if c == nil {
				var err error
				if c, err = net.Dial("udp", netip.AddrPortFrom(addr, knockedPort).String()); err != nil {
					return err
				}
				sockets[addr] = c
			}
			if _, err := c.Write([]byte("?")); errors.Is(err, unix.ECONNREFUSED) {
				refused = append(refused, addr)
			}
			if knock, err := openTCP(addr); err == nil {
				knocks = append(knocks, knock)
			}
		}
		_ = unix.Nanosleep(&pause, nil) // wait for answers
		for _, knock := range knocks {
			if knock.refused() {
				refused = append(refused, knock.addr)
			}
		}
		for addr, c := range sockets {
			if !slices.Contains(targets, addr) {
				c.Close()
				delete(sockets, addr)
			}
		}
		k.mu.Lock()
		for _, addr := range refused {
			k.answers[addr] = true
		}
		k.rounds++
		k.knocks += 2 * len(targets)
		k.news.Broadcast()
		k.mu.Unlock()
	}
}

type knockTCP struct {
	addr   netip.Addr
	socket int
}

func openTCP(addr netip.Addr) (k knockTCP, err error) {
	family, to := unix.AF_INET, unix.Sockaddr(nil)
	if addr.Is4() {
		to = &unix.SockaddrInet4{Port: knockedPort, Addr: addr.As4()}
	} else {
		family, to = unix.AF_INET6, &unix.SockaddrInet6{Port: knockedPort, Addr: addr.As16()}
	}
	socket, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return k, err
	}
	if err := unix.Connect(socket, to); err != nil && err != unix.EINPROGRESS {
		unix.Close(socket)
		return k, err
	}
	return knockTCP{addr, socket}, nil
}

// refused reports whether an answer has arrived and closes the attempt.
func (k knockTCP) refused() bool {
	defer unix.Close(k.socket)
	code, err := unix.GetsockoptInt(k.socket, unix.SOL_SOCKET, unix.SO_ERROR)
	return err == nil && unix.Errno(code) == unix.ECONNREFUSED
}
