package kvscheduler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"pgregory.net/rapid"
)

// sequence is one random run.
type sequence struct {
	t         *rapid.T
	w         *world
	s         *Scheduler
	requested map[string]spec
	obtained  map[string]spec
	log       []string
	spoilt    bool // the southbound was changed behind the scheduler's back
}

// property runs check with random sequences, in a bubble with its own clock.
func property(t *testing.T, check func(q *sequence)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(bubbleTB{t}, func(t *rapid.T) {
			q := &sequence{t: t, w: &world{exists: map[string]spec{}}, requested: map[string]spec{}, obtained: map[string]spec{}}
			q.start()
			defer func() {
				_ = q.s.Close()
				if t.Failed() {
					t.Log(strings.Join(q.log, "\n"))
				}
			}()
			check(q)
		})
	})
}

// bubbleTB hides testing.T, whose Deadline may not be asked for in a bubble.
type bubbleTB struct{ rapid.TB }

func (q *sequence) start() {
	if q.s != nil {
		_ = q.s.Close()
	}
	q.s = New(Options{Logger: quietLog(), CallTimeout: time.Second})
	q.w.register(q.s)
}

func (q *sequence) logf(format string, args ...any) {
	q.log = append(q.log, fmt.Sprintf(format, args...))
}

func (q *sequence) fatalf(format string, args ...any) {
	q.t.Helper()
	q.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(q.log, "\n"))
}

var (
	baseKeys = []string{"k/0", "k/1", "k/2", "r/0", "r/1", "r/2"}
	// What a value may depend on. Some of it is derived, from itself or from others
	// that need it: cycles of all kinds come up.
	depSpecs = []string{"k/0", "k/1", "k/2", "r/0", "r/1", "r/2", "o/0", "o/1", "d/k0/a", "d/k1/b", "d/r1/a", "p/k0/p",
		"any:o/", "any:p/k", "any:k/", "any:d/k1/", "any:r/", "any:d/"}
	itemSets = [][]string{nil, nil, {"a"}, {"a", "b"}, {"p"}, {"c", "p"}, {"a", "b", "c", "p"}, {"b", "q"}, {"q"}, {"e"}, {"a", "e"}}
)

func (q *sequence) drawSpec() spec {
	return spec{
		V:     rapid.IntRange(0, 3).Draw(q.t, "version"),
		Deps:  rapid.SliceOfNDistinct(rapid.SampledFrom(depSpecs), 0, 2, rapid.ID).Draw(q.t, "deps"),
		Items: rapid.SampledFrom(itemSets).Draw(q.t, "items"),
	}
}

// drawChange returns some puts and deletes.
func (q *sequence) drawChange() map[string]*spec {
	change := map[string]*spec{}
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom(baseKeys), 1, 4, rapid.ID).Draw(q.t, "keys") {
		if rapid.IntRange(0, 3).Draw(q.t, "delete") == 0 {
			change[key] = nil
		} else {
			sp := q.drawSpec()
			change[key] = &sp
		}
	}
	return change
}

func (q *sequence) request(change map[string]*spec) {
	for key, sp := range change {
		if sp == nil {
			delete(q.requested, key)
		} else {
			q.requested[key] = *sp
		}
	}
}

func (q *sequence) transaction(change map[string]*spec) *Transaction {
	txn := q.s.NewTransaction()
	for _, key := range slices.Sorted(maps.Keys(change)) {
		if sp := change[key]; sp == nil {
			txn.Delete(key)
		} else {
			txn.Put(key, sp.value())
		}
	}
	return txn
}

func render(change map[string]*spec) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(change)) {
		if sp := change[key]; sp == nil {
			parts = append(parts, "-"+key)
		} else {
			parts = append(parts, key+"="+sp.value().Value)
		}
	}
	return strings.Join(parts, " ")
}

func (q *sequence) commit(change map[string]*spec, opts ...TxnOption) (*RecordedTxn, error) {
	q.logf("commit %s", render(change))
	seq, err := q.transaction(change).Commit(q.t.Context(), opts...)
	if seq == NoSeqNum {
		q.fatalf("commit: %v", err)
	}
	q.settle()
	r := q.s.RecordedTxn(seq)
	q.logf("  %v\n  -> %s", err, strings.ReplaceAll(strings.Join(opsOf(r.Executed), "\n     "), "\n", "\n"))
	return r, err
}

// all returns the whole request, for a resync.
func (q *sequence) all() map[string]*spec {
	all := map[string]*spec{}
	for key, sp := range q.requested {
		all[key] = &sp
	}
	return all
}

func (q *sequence) resync(t ResyncType, opts ...TxnOption) (*RecordedTxn, error) {
	q.logf("resync %v", t)
	change := q.all()
	if t == DownstreamResync {
		change = nil
	}
	return q.commit(change, append(opts, WithResync(t))...)
}

// notify makes an obtained value appear, change or disappear.
func (q *sequence) notify() {
	key := rapid.SampledFrom([]string{"o/0", "o/1"}).Draw(q.t, "obtained")
	n := Notification{Key: key}
	if _, ok := q.obtained[key]; ok && rapid.Bool().Draw(q.t, "gone") {
		delete(q.obtained, key)
		delete(q.w.exists, key)
	} else {
		sp := spec{V: rapid.IntRange(0, 1).Draw(q.t, "version")}
		q.obtained[key] = sp
		q.w.exists[key] = sp
		n.Value = sp.value()
	}
	q.logf("notify %s %v", key, n.Value)
	if err := q.s.PushSBNotification(n); err != nil {
		q.fatalf("%v", err)
	}
	q.settle()
}

// sleep lets time pass, and with it retries.
func (q *sequence) sleep(d time.Duration) {
	q.settle()
	time.Sleep(d)
	q.settle()
}

// settle waits until nothing is left to do now.
func (q *sequence) settle() {
	for again := true; again; again = q.s.queue.length() > 0 {
		if err := q.s.Barrier(q.t.Context()); err != nil {
			q.fatalf("%v", err)
		}
	}
}

// step does something random; failures are up to the world.
func (q *sequence) step(opts ...TxnOption) {
	switch rapid.IntRange(0, 9).Draw(q.t, "step") {
	case 0:
		q.notify()
	case 1:
		_, _ = q.resync(rapid.SampledFrom([]ResyncType{FullResync, UpstreamResync, DownstreamResync}).Draw(q.t, "resync"), opts...)
	default:
		change := q.drawChange()
		q.request(change)
		_, _ = q.commit(change, opts...)
	}
}

// expectOracle compares the southbound and the states with the oracle.
func (q *sequence) expectOracle(when string) {
	q.t.Helper()
	exists, states := oracle{q.requested, q.obtained}.expect()
	if got, want := content(q.w.exists), content(exists); !slices.Equal(got, want) {
		q.fatalf("%s: southbound is\n  %s\nwant\n  %s", when, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	got := map[string]pb.ValueState{}
	for _, st := range q.s.ValueStatuses("") {
		got[st.Value.Key] = st.Value.State
		for _, d := range st.DerivedValues {
			got[d.Key] = d.State
		}
	}
	if !maps.Equal(got, states) {
		q.fatalf("%s: states are\n  %v\nwant\n  %v", when, got, states)
	}
}

// watchInvariants has P4 and P5 checked between any two operations.
func (q *sequence) watchInvariants() {
	q.w.between = func(op, key string) {
		if strings.HasPrefix(key, "o/") {
			q.fatalf("P4: %s of the obtained value %s", op, key)
		}
		if !q.spoilt { // else it takes several operations to catch up
			q.checkP5(op + " " + key)
		}
	}
}

// checkP5 looks at the graph while the engine waits for the southbound.
func (q *sequence) checkP5(at string) {
	nodes := map[string]*node{}
	q.s.graph.Ascend("", func(key string, n *node) bool { nodes[key] = n; return true })
	reach := map[string]map[string]bool{}
	edges := func(n *node) map[string]bool {
		to := map[string]bool{}
		for _, d := range n.deps {
			for key, t := range nodes {
				if t.want != nil && (d.Key == key || d.Key == "" && d.AnyOf.selects(key) && slices.ContainsFunc(d.AnyOf.KeyPrefixes, func(p string) bool { return strings.HasPrefix(key, p) })) {
					to[key] = true
				}
			}
		}
		return to
	}
	for key, n := range nodes {
		reach[key] = edges(n)
	}
	sameCycle := func(a, b string) bool { return a == b || connected(reach, a, b) && connected(reach, b, a) }
	for key, n := range nodes {
		if n.State() != pb.ValueState_CONFIGURED || n.base == "" && n.want == nil {
			continue
		}
		for i := range n.deps {
			met := false
			for target, t := range nodes {
				d := &n.deps[i]
				if d.Key != target && (d.Key != "" || !slices.ContainsFunc(d.AnyOf.KeyPrefixes, func(p string) bool { return strings.HasPrefix(target, p) })) {
					continue
				}
				// A value that is about to be deleted is still there.
				met = met || t.have != nil && !t.is(broken) || t.want != nil && sameCycle(key, target)
			}
			if !met && !n.is(leaving) {
				q.fatalf("P5: before %s: %s is CONFIGURED, but its dependency %s is not met", at, key, n.deps[i].Label)
			}
		}
	}
}

func connected(edges map[string]map[string]bool, from, to string) bool {
	seen := map[string]bool{}
	var walk func(string) bool
	walk = func(k string) bool {
		for next := range edges[k] {
			if next == to {
				return true
			}
			if !seen[next] {
				seen[next] = true
				if walk(next) {
					return true
				}
			}
		}
		return false
	}
	return walk(from)
}

// failures makes some of the next calls fail. Which ones is drawn beforehand:
// calls happen on another goroutine.
func (q *sequence) failures(most int) {
	fates := map[int]outcome{}
	for _, call := range rapid.SliceOfNDistinct(rapid.IntRange(0, 60), 0, most, rapid.ID).Draw(q.t, "failing calls") {
		fates[call] = outcome(rapid.IntRange(1, int(outcomes)-1).Draw(q.t, "outcome"))
	}
	n := 0
	q.w.outcome = func(op, key string) outcome {
		o := fates[n]
		n++
		if o != succeeds {
			q.logf("  %s %s: outcome %d", op, key, o)
		}
		return o
	}
}

// spoil changes the southbound behind the scheduler's back.
func (q *sequence) spoil() {
	ours := slices.DeleteFunc(slices.Sorted(maps.Keys(q.w.exists)), func(k string) bool { return strings.HasPrefix(k, "o/") })
	if len(ours) == 0 {
		return
	}
	q.spoilt = true
	key := rapid.SampledFrom(ours).Draw(q.t, "spoilt")
	if !strings.HasPrefix(key, "d/") && rapid.Bool().Draw(q.t, "changed") {
		sp := q.w.exists[key]
		sp.V++
		q.w.exists[key] = sp
	} else {
		delete(q.w.exists, key)
		for k := range q.w.exists { // parts go with the whole
			if strings.HasPrefix(k, "d/"+strings.ReplaceAll(key, "/", "")+"/") {
				delete(q.w.exists, k)
			}
		}
	}
	q.logf("spoil %s", key)
}
