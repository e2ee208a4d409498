package peers

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/contiv/internal/lib/ping"
	"github.com/prometheus/client_golang/prometheus"
)

// network is a path that carries packets up to a size.
type network struct {
	mu      sync.Mutex
	largest int  // 0: no packet passes
	silent  bool // echo requests are ignored
	sent    []int
}

func (n *network) Close() {}

func (n *network) set(largest int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.largest = largest
}

func (n *network) Ping(ctx context.Context, _ netip.Addr, size int) (time.Duration, error) {
	return n.send(ctx, size, true)
}

func (n *network) Knock(ctx context.Context, _ netip.Addr, size int) (time.Duration, error) {
	return n.send(ctx, size, false)
}

func (n *network) send(ctx context.Context, size int, echo bool) (time.Duration, error) {
	n.mu.Lock()
	n.sent = append(n.sent, size)
	passes := size <= n.largest && !(echo && n.silent)
	n.mu.Unlock()
	if passes {
		return time.Millisecond, nil
	}
	<-ctx.Done()
	return 0, ping.ErrNoAnswer
}

// A silent peer becomes a problem once that lasts. A path too narrow for pods' packets is a problem
// that names the largest passing size.
func TestProblemsOfAPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := &network{}
		known := false
		p := New(Options{
			Open: func() (Pinger, error) { return path, nil }, Log: slog.New(slog.DiscardHandler),
			Peers: func() []Peer {
				if !known {
					return nil
				}
				return []Peer{{"node2", netip.MustParseAddr("10.1.2.1"), 1450}}
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { p.Run(ctx); close(done) }()
		expect := func(after time.Duration, answers bool, size int, problem string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			reports := p.Reports()
			if len(reports) != 1 {
				t.Fatalf("%+v", reports)
			}
			r := reports[0]
			if r.Answers != answers || r.Size != size || (r.Problem == "") != (problem == "") || !strings.Contains(r.Problem, problem) {
				t.Errorf("%+v, want answers %v, size %d, problem %q", r, answers, size, problem)
			}
			if problems := p.Problems(ctx); (len(problems) > 0) != (problem != "") {
				t.Errorf("problems %q", problems)
			}
		}
		synctest.Wait()
		path.set(9000)
		known = true
		expect(6*time.Second, true, 1450, "")
		path.set(0)
		expect(19*time.Second, false, 1450, "") // 3 probes of 1 s each
		expect(9*time.Second, false, 1450, "node2 does not answer over the overlay (10.1.2.1)")
		path.set(9000)
		expect(9*time.Second, true, 1450, "")
		path.set(1350)
		expect(4*time.Minute, true, 1350, "larger than 1350 bytes are lost, but pods send up to 1450 (packets of pods may be lost from 1347 bytes)")
		path.set(1450)
		expect(time.Minute, true, 1450, "")
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(p)
		families, err := registry.Gather()
		if err != nil || len(families) != 6 {
			t.Errorf("%d metrics, %v", len(families), err)
		}
		known = false
		time.Sleep(time.Minute)
		synctest.Wait()
		if reports := p.Reports(); len(reports) != 0 {
			t.Errorf("of a node that left: %+v", reports)
		}
		cancel()
		<-done
	})
}

// A node that ignores echo requests is probed by UDP, with the same size measurement.
func TestPeerThatIgnoresEchoRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := &network{largest: 1350, silent: true}
		p := New(Options{Open: func() (Pinger, error) { return path, nil }, Log: slog.New(slog.DiscardHandler),
			Peers: func() []Peer { return []Peer{{"node2", netip.MustParseAddr("10.1.2.1"), 1450}} }})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		p.Run(ctx)
		if r := p.Reports()[0]; !r.Answers || r.Size != 1350 || !strings.Contains(r.Problem, "larger than 1350 bytes are lost") {
			t.Errorf("%+v", r)
		}
		path.set(9000)
		lost := p.Reports()[0].Lost
		ctx, cancel = context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		p.Run(ctx)
		if r := p.Reports()[0]; r.Problem != "" || r.Lost != lost {
			t.Errorf("%d more are lost: %+v", r.Lost-lost, r)
		}
	})
}

// doc.go states the cost of a healthy peer.
func TestCostOfAHealthyPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := &network{largest: 9000}
		p := New(Options{Open: func() (Pinger, error) { return path, nil }, Log: slog.New(slog.DiscardHandler),
			Peers: func() []Peer { return []Peer{{"node2", netip.MustParseAddr("10.1.2.1"), 1450}} }})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		p.Run(ctx)
		bytes := 0
		for _, size := range path.sent {
			bytes += 2 * size
		}
		if rate := float64(bytes) / 3600; rate > 60 {
			t.Errorf("%.0f B/s", rate)
		}
	})
}

func TestEachNodeIsProbedAsOftenAsItProbes(t *testing.T) {
	for nodes, want := range map[int]int{1: 0, 2: 1, 17: 16, 18: 5, 1000: 10} {
		probed := map[int]int{}
		for self := 1; self <= nodes; self++ {
			var others []int
			for i := nodes; i >= 1; i-- {
				if i != self {
					others = append(others, i)
				}
			}
			chosen := Choose(uint32(self), others, func(id int) uint32 { return uint32(id) })
			if len(chosen) != want || slices.Contains(chosen, self) {
				t.Fatalf("node %d of %d probes %v", self, nodes, chosen)
			}
			for _, peer := range chosen {
				probed[peer]++
			}
		}
		for peer, times := range probed {
			if times != want {
				t.Errorf("node %d of %d is probed by %d", peer, nodes, times)
			}
		}
	}
}

func ExampleChoose() {
	var others []uint32
	for id := uint32(1); id <= 40; id++ {
		if id != 39 {
			others = append(others, id)
		}
	}
	fmt.Println(Choose(39, others, func(id uint32) uint32 { return id }))
	// Output: [40 1 3 7 15 31]
}
