package scale

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/api/contiv/policy"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/netlink/conntrack"
	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/kernel/policies"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// withPolicies starts an agent on a machine of newJudged and adds its pods.
func withPolicies(tb testing.TB, nodes, podsPerNode int) (*cluster, *programmed) {
	tb.Helper()
	c := newCluster(tb, nodes, podsPerNode)
	m, p := newJudged(tb, c)
	a := m.start()
	tb.Cleanup(a.stop)
	for i := range podsPerNode {
		a.addPod(i)
	}
	return c, p
}

// namespaces counts the network namespaces of newJudged.
var namespaces atomic.Int32

// newJudged returns a machine of the cluster with nftables policies in a separate network
// namespace. The rest of its vswitch is in memory.
func newJudged(tb testing.TB, c *cluster) (*machine, *programmed) {
	tb.Helper()
	if os.Getuid() != 0 {
		tb.Skip("needs root: network namespaces")
	}
	name := fmt.Sprint("contiv-scale-", os.Getpid(), "-", namespaces.Add(1))
	root := &vswitchtest.Host{NetNS: "/proc/self/ns/net"}
	root.Exec(tb, "ip netns add "+name)
	tb.Cleanup(func() { root.Exec(tb, "ip netns del "+name) })
	ns, err := namespace.Open("/var/run/netns/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(ns.Close)
	nftables, err := nft.Open(ns)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(nftables.Release)
	m := newMachine(tb, c)
	marks := func(mask uint32, stale func(uint32) bool) error { return conntrack.ClearMarks(ns.Handle, mask, stale) }
	p := &programmed{Filter: policies.New(nftables, marks, slog.New(slog.DiscardHandler)), lists: map[string]*filter.AccessList{}, news: make(chan struct{}, 1)}
	m.filter = p
	return m, p
}

// programmed is a filter that reports its lists.
type programmed struct {
	vswitch.Filter
	mu    sync.Mutex
	lists map[string]*filter.AccessList
	// values counts changed values, calls counts the calls of Change.
	values, calls int
	news          chan struct{}
}

// Change implements vswitch.Filter.
func (p *programmed) Change(ctx context.Context, set, remove []proto.Message) error {
	if err := p.Filter.Change(ctx, set, remove); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.values += len(set) + len(remove)
	p.calls++
	for _, m := range set {
		if list, ok := m.(*filter.AccessList); ok {
			p.lists[list.GetName()] = list
		}
	}
	for _, m := range remove {
		if list, ok := m.(*filter.AccessList); ok {
			delete(p.lists, list.GetName())
		}
	}
	select {
	case p.news <- struct{}{}:
	default:
	}
	return nil
}

// after makes changes in the database and returns the time until done accepts the lists in
// nftables.
func (p *programmed) after(tb testing.TB, change func(), done func(lists map[string]*filter.AccessList) bool) time.Duration {
	tb.Helper()
	began := time.Now()
	change()
	timeout := time.After(5 * time.Minute)
	for {
		p.mu.Lock()
		enough := done(p.lists)
		p.mu.Unlock()
		if enough {
			return time.Since(began)
		}
		select {
		case <-p.news:
		case <-timeout:
			tb.Fatal("nftables lacks the requested policies")
		}
	}
}

func selecting(key, value string) *policy.Policy_LabelSelector {
	return &policy.Policy_LabelSelector{MatchLabel: []*policy.Policy_Label{{Key: key, Value: value}}}
}

func (c *cluster) putPolicy(p *policy.Policy) store.Change {
	return c.put("k8s/policy/"+p.GetName()+"/namespace/"+p.GetNamespace(), p)
}

func peers(i int) []*policy.Policy_Peer {
	return []*policy.Policy_Peer{{Pods: selecting("client", fmt.Sprint(i))}}
}

func ports(i int) []*policy.Policy_Port {
	return []*policy.Policy_Port{{Protocol: policy.Policy_Port_TCP, Port: &policy.Policy_Port_PortNameOrNumber{Number: int32(1 + i%65535)}}}
}

// manyPolicies returns the number of policies, or of rules of one policy, in BenchmarkPolicies.
func manyPolicies() int { return unlessShort(5000, 100) }

var policiesOf = []struct {
	name  string
	lists func() int
	of    func() []*policy.Policy
}{
	{"ingress", manyPolicies, func() (list []*policy.Policy) {
		for i := range manyPolicies() {
			list = append(list, &policy.Policy{
				Name: fmt.Sprint("p", i), Namespace: "default", PolicyType: policy.Policy_INGRESS, Pods: selecting("app", fmt.Sprint("app-", i%10)),
				IngressRule: []*policy.Policy_IngressRule{{From: peers(i), Port: ports(i)}},
			})
		}
		return list
	}},
	{"both directions", func() int { return 2 * manyPolicies() }, func() (list []*policy.Policy) {
		for i := range manyPolicies() {
			list = append(list, &policy.Policy{
				Name: fmt.Sprint("p", i), Namespace: "default", PolicyType: policy.Policy_INGRESS_AND_EGRESS, Pods: selecting("app", fmt.Sprint("app-", i%10)),
				IngressRule: []*policy.Policy_IngressRule{{From: peers(i), Port: ports(i)}},
				EgressRule:  []*policy.Policy_EgressRule{{To: peers(i), Port: ports(i)}},
			})
		}
		return list
	}},
	{"rules of one", func() int { return 1 }, func() []*policy.Policy {
		p := &policy.Policy{Name: "p", Namespace: "default", PolicyType: policy.Policy_INGRESS, Pods: &policy.Policy_LabelSelector{}}
		for i := range manyPolicies() {
			p.IngressRule = append(p.IngressRule, &policy.Policy_IngressRule{From: peers(i % 50), Port: ports(i)})
		}
		return []*policy.Policy{p}
	}},
}

// cpuTime returns the user and system time of this process. It depends less on the load of the
// machine than elapsed time.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkPolicies measures the time from etcd to the last change of nftables on a node with 30
// selected pods: for 5 000 new policies with one rule each, and for one policy with 5 000 rules. It
// then changes one more policy and deletes all of them.
func BenchmarkPolicies(b *testing.B) {
	for _, kind := range policiesOf {
		b.Run(kind.name, func(b *testing.B) {
			c, p := withPolicies(b, 100, benchPodsPerNode)
			var all, gone []store.Change
			for _, p := range kind.of() {
				all = append(all, c.putPolicy(p))
				gone = append(gone, remove(all[len(all)-1]))
			}
			one := &policy.Policy{Name: "one", Namespace: "default", PolicyType: policy.Policy_INGRESS, Pods: selecting("app", "app-3")}
			var beside, going, used time.Duration
			lists := 0
			for n := 0; b.Loop(); n++ {
				before := cpuTime(b)
				p.after(b, func() { c.write(all...) }, func(have map[string]*filter.AccessList) bool {
					lists = len(have)
					return lists >= kind.lists()
				})
				b.StopTimer()
				used += cpuTime(b) - before
				one.IngressRule = []*policy.Policy_IngressRule{{From: peers(n), Port: ports(n)}}
				beside += p.after(b, func() { c.write(c.putPolicy(one)) }, func(have map[string]*filter.AccessList) bool { return len(have) > lists })
				going += p.after(b, func() { c.write(append(gone, remove(c.putPolicy(one)))...) }, func(have map[string]*filter.AccessList) bool { return len(have) == 0 })
				b.StartTimer()
			}
			b.ReportMetric(float64(used.Microseconds())/float64(b.N)/1000, "cpu-ms/op")
			b.ReportMetric(float64(beside.Microseconds())/float64(b.N)/1000, "ms/another")
			b.ReportMetric(float64(going.Microseconds())/float64(b.N)/1000, "ms/removal")
		})
	}
}

// selectedBy returns the number of policies that select a label in BenchmarkPoliciesOfALabel.
func selectedBy() int { return unlessShort(1000, 100) }

// BenchmarkPoliciesOfALabel measures the time from etcd to the last change of nftables when a pod
// gets or loses a label that 1 000 policies select: as a peer, which changes 1 000 sets, and as the
// subject.
func BenchmarkPoliciesOfALabel(b *testing.B) {
	for _, kind := range []string{"as a peer", "as a subject"} {
		b.Run(kind, func(b *testing.B) {
			c, p := withPolicies(b, 100, benchPodsPerNode)
			var all []store.Change
			for i := range selectedBy() {
				// Each policy has a different selector.
				marked := &policy.Policy_LabelSelector{MatchExpression: []*policy.Policy_LabelSelector_LabelExpression{{
					Key: "marked", Operator: policy.Policy_LabelSelector_LabelExpression_IN, Value: []string{"yes", fmt.Sprint(i)}}}}
				np := &policy.Policy{Name: fmt.Sprint("p", i), Namespace: "default", PolicyType: policy.Policy_INGRESS, Pods: selecting("app", fmt.Sprint("app-", i%10)),
					IngressRule: []*policy.Policy_IngressRule{{From: []*policy.Policy_Peer{{Pods: marked}}, Port: ports(i)}}}
				if kind == "as a subject" {
					np.Pods, np.IngressRule[0].From = marked, peers(i)
				}
				all = append(all, c.putPolicy(np))
			}
			p.after(b, func() { c.write(all...) }, func(lists map[string]*filter.AccessList) bool { return len(lists) == selectedBy() })
			node, want := 2, selectedBy()
			if kind == "as a subject" {
				node, want = 1, 1
			}
			values, calls := 0, 0
			change := func(labels map[string]string) {
				p.mu.Lock()
				v, n := p.values, p.calls
				p.mu.Unlock()
				p.after(b, func() { c.write(c.putPodWith(node, 3, labels)) }, func(map[string]*filter.AccessList) bool {
					values, calls = p.values-v, p.calls-n
					return values >= want
				})
			}
			var losing time.Duration
			for b.Loop() {
				change(map[string]string{"marked": "yes"})
				b.StopTimer()
				b.ReportMetric(float64(values), "values")
				b.ReportMetric(float64(calls), "transactions")
				began := time.Now()
				change(nil)
				losing += time.Since(began)
				b.StartTimer()
			}
			b.ReportMetric(float64(losing.Microseconds())/float64(b.N)/1000, "ms/loss")
		})
	}
}

// BenchmarkPoliciesOfALargeCluster measures the first start and a restart of an agent among 1 000
// nodes and 30 000 pods with 3 000 policies, 300 of which select each of its pods. It also reports
// the live heap.
func BenchmarkPoliciesOfALargeCluster(b *testing.B) {
	policies := unlessShort(3000, 300)
	c := newCluster(b, benchNodes(), benchPodsPerNode)
	var all []store.Change
	for i := range policies {
		all = append(all, c.putPolicy(&policy.Policy{
			Name: fmt.Sprint("p", i), Namespace: "default", PolicyType: policy.Policy_INGRESS_AND_EGRESS, Pods: selecting("app", fmt.Sprint("app-", i%10)),
			IngressRule: []*policy.Policy_IngressRule{{From: append(peers(i), &policy.Policy_Peer{Pods: selecting("app", fmt.Sprint("app-", i/10%10))}), Port: ports(i)}},
			EgressRule:  []*policy.Policy_EgressRule{{To: []*policy.Policy_Peer{{Pods: selecting("app", fmt.Sprint("app-", i/100%10))}}, Port: ports(i)}},
		}))
	}
	c.write(all...)
	var used float64
	var restart time.Duration
	for b.Loop() {
		b.StopTimer()
		m, p := newJudged(b, c)
		before := heap()
		b.StartTimer()
		a := m.start()
		b.StopTimer()
		for i := range benchPodsPerNode {
			a.addPod(i)
		}
		used = heap() - before
		if len(p.lists) != 2*policies {
			b.Fatalf("%d lists", len(p.lists))
		}
		a.stop()
		began := time.Now()
		a = m.start()
		restart += time.Since(began)
		a.stop()
		b.StartTimer()
	}
	b.ReportMetric(used/(1<<20), "heap-MB")
	b.ReportMetric(float64(restart.Milliseconds())/float64(b.N), "ms/restart")
}
