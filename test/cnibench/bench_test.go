package cnibench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/contiv/contiv/test/lab"
	"golang.org/x/sync/errgroup"
)

// podsPerRound returns the number of pods per side at the end of a round.
func podsPerRound() int { return unlessShort(100, 10) }

// parallelADDs returns the number of ADDs at once.
func parallelADDs() int { return unlessShort(32, 4) }

// unlessShort returns a size, or a small one for -short, which only shows that benchmarks work.
func unlessShort(size, small int) int {
	if testing.Short() {
		return small
	}
	return size
}

type times []time.Duration

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (t times) p(percent int) float64 { return ms(lab.Percentile(t, percent)) }

// BenchmarkCalls measures sequential ADD, CHECK and DEL calls.
func BenchmarkCalls(b *testing.B) {
	s := newSite(b)
	sides := append([]*side{s.contiv}, s.references...)
	adds, checks, dels := map[*side]times{}, map[*side]times{}, map[*side]times{}
	number := 0
	for b.Loop() {
		var pods []*pod
		for range podsPerRound() {
			for _, side := range sides {
				p := s.newPod(b, side, number)
				took, err := p.add(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				adds[side] = append(adds[side], took)
				pods = append(pods, p)
			}
			number++
		}
		for _, p := range pods {
			took, err := p.check(b.Context())
			if err != nil && !strings.HasPrefix(p.side.name, "bridge+masq") { // the masquerading rules that it checks depend on iptables
				b.Fatalf("%s: CHECK: %v", p.side.name, err)
			}
			checks[p.side] = append(checks[p.side], took)
		}
		for _, p := range pods {
			took, err := p.remove(b.Context())
			if err != nil {
				b.Fatalf("%s: DEL: %v", p.side.name, err)
			}
			dels[p.side] = append(dels[p.side], took)
		}
	}
	var report strings.Builder
	w := tabwriter.NewWriter(&report, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "ms, as the runtime waits\tADD p10\tp50\tp90\tp99\tCHECK p50\tp99\tDEL p50\tp99\t")
	for _, side := range sides {
		a, c, d := adds[side], checks[side], dels[side]
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t\n", side.name, a.p(10), a.p(50), a.p(90), a.p(99), c.p(50), c.p(99), d.p(50), d.p(99))
	}
	w.Flush()
	s.shares(b, &report, adds[s.contiv])
	s.programs(b, &report)
	// Log truncates long output.
	fmt.Printf("\n%d pods on each side, up to %d at a time\n%s", len(adds[s.contiv]), podsPerRound(), &report)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(adds[s.contiv].p(50), "ADD-p50-ms")
	b.ReportMetric(adds[s.contiv].p(99), "ADD-p99-ms")
	for _, r := range s.references {
		// On a busy machine, the fastest tenth is closest to an idle one.
		b.ReportMetric(adds[s.contiv].p(10)/adds[r].p(10), "ADD-p10/"+r.name)
		b.ReportMetric(adds[s.contiv].p(50)/adds[r].p(50), "ADD-p50/"+r.name)
		b.ReportMetric(adds[s.contiv].p(99)/adds[r].p(99), "ADD-p99/"+r.name)
	}
}

// shares reports the time shares of Contiv's ADD.
func (s *site) shares(b *testing.B, report *strings.Builder, adds times) {
	b.Helper()
	all, err := lab.ReadCNITimings(s.contiv.timing)
	if err != nil {
		b.Fatal(err)
	}
	timings := slices.DeleteFunc(all, func(t lab.CNITiming) bool { return t.Command != "ADD" })
	if len(timings) != len(adds) {
		b.Fatalf("contiv-cni reported the timing of %d of %d ADDs", len(timings), len(adds))
	}
	w := tabwriter.NewWriter(report, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "share of contiv's ADD, ms\tp50\tp99\tof the sum\t")
	var sum time.Duration
	for _, t := range timings {
		sum += t.Exec + t.Total
	}
	for _, share := range []struct {
		name string
		of   func(lab.CNITiming) time.Duration
	}{
		{"exec: start and end of the process", func(t lab.CNITiming) time.Duration { return t.Exec }},
		{"contiv-cni itself", func(t lab.CNITiming) time.Duration { return t.Total - t.RPC }},
		{"rpc: connect, call, reply", func(t lab.CNITiming) time.Duration { return t.RPC - t.Agent }},
		{"agent: event, plan, record, persist", func(t lab.CNITiming) time.Duration { return t.Agent - t.Southbound }},
		{"kernel: netlink calls of the agent", func(t lab.CNITiming) time.Duration { return t.Southbound }},
	} {
		var list times
		var part time.Duration
		for _, t := range timings {
			list = append(list, share.of(t))
			part += share.of(t)
		}
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.0f%%\t\n", share.name, list.p(50), list.p(99), 100*float64(part)/float64(sum))
	}
	w.Flush()
}

// programs reports the installed sizes of the CNI programs and their run time for VERSION, which is
// mostly process start and exit.
func (s *site) programs(b *testing.B, report *strings.Builder) {
	b.Helper()
	const runs = 50
	paths := []string{filepath.Join(s.binaries, "contiv-cni"), filepath.Join(debianPlugins, "bridge"), filepath.Join(debianPlugins, "host-local")}
	took := map[string]times{}
	for range runs {
		for _, path := range paths {
			cmd := exec.CommandContext(b.Context(), path)
			cmd.Env = []string{"CNI_COMMAND=VERSION", "CNI_NETNS=dummy", "CNI_IFNAME=dummy", "CNI_PATH=dummy"}
			cmd.Stdin = strings.NewReader(`{"cniVersion":"1.0.0"}`)
			began := time.Now()
			if err := cmd.Run(); err != nil {
				b.Fatal(err)
			}
			took[path] = append(took[path], time.Since(began))
		}
	}
	w := tabwriter.NewWriter(report, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "programs\tMB\tstart and end p50, ms\tp99\t")
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		fmt.Fprintf(w, "%s\t%.1f\t%.2f\t%.2f\t\n", filepath.Base(path), float64(info.Size())/1e6, took[path].p(50), took[path].p(99))
	}
	w.Flush()
}

// BenchmarkHistory measures the cost of the history in ADD by alternating between two nodes, one of
// which has no history.
func BenchmarkHistory(b *testing.B) {
	s := newSite(b)
	_, without := s.node(b, "none", s.binaries, "--history-size", "0")
	took := map[*side]times{}
	for number := 0; b.Loop(); {
		var pods []*pod
		for i := range podsPerRound() {
			sides := []*side{s.contiv, without}
			if i%2 == 1 {
				slices.Reverse(sides)
			}
			for _, side := range sides {
				p := s.newPod(b, side, number)
				d, err := p.add(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				took[side] = append(took[side], d)
				pods = append(pods, p)
			}
			number++
		}
		for _, p := range pods {
			if _, err := p.remove(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(took[s.contiv].p(50), "ADD-p50-ms")
	b.ReportMetric(took[without].p(50), "without-p50-ms")
	for _, percent := range []int{10, 50, 90} {
		b.ReportMetric(took[s.contiv].p(percent)/took[without].p(percent), fmt.Sprintf("ADD-p%d/without", percent))
	}
}

// BenchmarkParallelADD measures 32 parallel ADDs from the first call to the end of the last. The
// sides alternate in changing order; the first turn of each is a warm-up.
func BenchmarkParallelADD(b *testing.B) {
	parallel, turns := parallelADDs(), unlessShort(5, 1)
	s := newSite(b)
	sides := append([]*side{s.contiv}, s.references...)
	took := map[*side]times{}
	number := 0
	turn := func(side *side) time.Duration {
		var pods []*pod
		for range parallel {
			pods = append(pods, s.newPod(b, side, number))
			number++
		}
		// The kernel is still removing the namespaces of the previous turn on the same processors.
		time.Sleep(time.Second)
		began := time.Now()
		var group errgroup.Group
		for _, p := range pods {
			group.Go(func() error {
				_, err := p.add(b.Context())
				return err
			})
		}
		if err := group.Wait(); err != nil {
			b.Fatal(err)
		}
		waited := time.Since(began)
		for _, p := range pods {
			if _, err := p.remove(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		return waited
	}
	if !testing.Short() {
		for _, side := range sides {
			turn(side)
		}
	}
	for b.Loop() {
		for range turns {
			slices.Reverse(sides)
			for _, side := range sides {
				took[side] = append(took[side], turn(side))
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(took[s.contiv].p(50), "32-ADDs-ms")
	for _, r := range s.references {
		b.ReportMetric(took[s.contiv].p(50)/took[r].p(50), "32-ADDs/"+r.name)
	}
}

// BenchmarkCheckAmongPods compares the cost of CHECK in the agent for a single pod and among 100
// pods. They are equal if CHECK reads nothing of other pods.
func BenchmarkCheckAmongPods(b *testing.B) {
	s := newSite(b)
	calls := unlessShort(50, 5)
	inAgent := func(p *pod) times {
		before, err := lab.ReadCNITimings(s.contiv.timing)
		if err != nil {
			b.Fatal(err)
		}
		for range calls {
			if _, err := p.check(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		all, err := lab.ReadCNITimings(s.contiv.timing)
		if err != nil {
			b.Fatal(err)
		}
		var list times
		for _, t := range all[len(before):] {
			list = append(list, t.Agent)
		}
		return list
	}
	var alone, among times
	number := 0
	for b.Loop() {
		var pods []*pod
		for range podsPerRound() {
			p := s.newPod(b, s.contiv, number)
			number++
			if _, err := p.add(b.Context()); err != nil {
				b.Fatal(err)
			}
			if pods = append(pods, p); len(pods) == 1 {
				alone = append(alone, inAgent(p)...)
			}
		}
		among = append(among, inAgent(pods[0])...)
		for _, p := range pods {
			if _, err := p.remove(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(alone.p(50), "alone-ms")
	b.ReportMetric(among.p(50), "among-100-ms")
	b.ReportMetric(among.p(50)/alone.p(50), "ratio")
}
