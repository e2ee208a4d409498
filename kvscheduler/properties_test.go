package kvscheduler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"pgregory.net/rapid"
)

// The properties are checked with random sequences; -rapid.checks=N says how
// many (default 100 each), -rapid.seed=N repeats one.

// P1: without failures, the southbound depends only on what was requested
// last. P4, P5 and P6 are checked on the way.
func TestP1P4P5P6StateDependsOnlyOnLastRequest(t *testing.T) {
	property(t, func(q *sequence) {
		q.watchInvariants()
		for range rapid.IntRange(1, 8).Draw(q.t, "steps") {
			q.step()
			q.expectOracle("P1")
		}
		for _, typ := range []ResyncType{FullResync, DownstreamResync, UpstreamResync} {
			before := q.w.calls
			r, err := q.resync(typ)
			if err != nil || len(r.Executed) > 0 || q.w.calls > before {
				q.fatalf("P6: %v without differences executed %v (%v)", typ, opsOf(r.Executed), err)
			}
			q.expectOracle("P6")
		}
	})
}

// P2: after failures stop, retries and one resync lead to the state of P1.
func TestP2StateAfterFailuresIsThatWithoutThem(t *testing.T) {
	property(t, func(q *sequence) {
		q.watchInvariants()
		q.failures(30)
		retry := rapid.Bool().Draw(q.t, "retry")
		for range rapid.IntRange(1, 6).Draw(q.t, "steps") {
			if rapid.IntRange(0, 5).Draw(q.t, "vanish") == 0 {
				q.spoil()
			}
			if retry {
				q.step(WithRetry(Retry{Period: time.Second, MaxCount: 2}))
			} else {
				q.step()
			}
		}
		if rapid.Bool().Draw(q.t, "retries fail too") {
			q.sleep(time.Minute)
		}
		q.w.outcome = nil
		q.sleep(time.Minute)
		for key, sp := range q.obtained { // what spoil took away of these is not ours to repair
			q.w.exists[key] = sp
		}
		_, err := q.resync(rapid.SampledFrom([]ResyncType{FullResync, DownstreamResync}).Draw(q.t, "final resync"))
		if err != nil {
			q.fatalf("P2: %v", err)
		}
		q.expectOracle("P2")
		r, err := q.resync(FullResync)
		if err != nil || len(r.Executed) > 0 {
			q.fatalf("P6 after failures: executed %v (%v)", opsOf(r.Executed), err)
		}
	})
}

// statuses renders the states of all values.
func (q *sequence) statuses() string {
	var b strings.Builder
	for _, st := range q.s.ValueStatuses("") {
		for _, v := range append([]*pb.ValueStatus{st.Value}, st.DerivedValues...) {
			fmt.Fprintf(&b, "%s %v %v %s\n", v.Key, v.State, v.Details, v.Error)
		}
	}
	return b.String()
}

// P3: a reverted transaction leaves everything as it was, or tells what not.
func TestP3RevertedTransactionLeavesNoTrace(t *testing.T) {
	property(t, func(q *sequence) {
		for range rapid.IntRange(0, 4).Draw(q.t, "steps") {
			q.step()
		}
		q.watchInvariants()
		before, states := content(q.w.exists), q.statuses()
		change := q.drawChange()
		left := rapid.IntRange(0, 8).Draw(q.t, "operations until the failure")
		fate := outcome(rapid.IntRange(1, int(outcomes)-1).Draw(q.t, "outcome"))
		failed := false
		q.w.outcome = func(op, key string) outcome {
			if left--; left != -1 {
				return succeeds
			}
			failed = true
			q.logf("  %s %s: outcome %d", op, key, fate)
			return fate
		}
		_, err := q.commit(change, WithRevert())
		q.w.outcome = nil
		if !failed {
			q.request(change)
			q.expectOracle("P1")
			return
		}
		te, ok := err.(*TransactionError)
		if !ok {
			q.fatalf("P3: no error: %v", err)
		}
		if !te.Reverted { // the failure was somebody else's, who was not there before
			for _, e := range te.Errors {
				if _, ours := change[e.Key]; ours {
					q.fatalf("P3: not reverted although %v", e)
				}
			}
			return
		}
		if got := content(q.w.exists); !slices.Equal(got, before) {
			q.fatalf("P3: southbound is\n  %s\nwas\n  %s\n%v", strings.Join(got, "\n  "), strings.Join(before, "\n  "), err)
		}
		if got := q.statuses(); got != states {
			q.fatalf("P3: states are\n%s\nwere\n%s", got, states)
		}
		for _, e := range te.Errors {
			if e.Operation == pb.TxnOperation_UNDEFINED { // what is told of values that could not be restored
				q.fatalf("P3: all was restored, and yet: %v", err)
			}
		}
		q.expectOracle("P3")
	})
}

// P3, second half: what a failing revert could not undo is in its error.
func TestP3FailingRevertTellsWhatItCouldNotUndo(t *testing.T) {
	property(t, func(q *sequence) {
		for range rapid.IntRange(0, 4).Draw(q.t, "steps") {
			q.step()
		}
		before := maps.Clone(q.w.exists)
		q.failures(10)
		_, err := q.commit(q.drawChange(), WithRevert())
		q.w.outcome = nil
		te, ok := err.(*TransactionError)
		if !ok || !te.Reverted {
			return
		}
		told := map[string]bool{}
		for _, e := range te.Errors {
			told[e.Key] = true
		}
		for key := range keysOf(before, q.w.exists) {
			was, a := before[key]
			is, b := q.w.exists[key]
			if a != b || content(map[string]spec{"": was})[0] != content(map[string]spec{"": is})[0] {
				base := key
				if n, ok := q.s.view().Get(key); ok {
					base = n.baseKey()
				} else if f := strings.Split(key, "/"); f[0] == "d" {
					base = f[1][:1] + "/" + f[1][1:]
				}
				if !told[key] && !told[base] && !told[base[:2]] {
					q.fatalf("P3: %s is not as it was, and %v does not tell", key, err)
				}
			}
		}
		_, _ = q.resync(FullResync)
		q.expectOracle("P2")
	})
}

func keysOf(ms ...map[string]spec) map[string]bool {
	all := map[string]bool{}
	for _, m := range ms {
		for k := range m {
			all[k] = true
		}
	}
	return all
}

// P7: what a dry run planned is what is executed.
func TestP7PlanIsWhatIsExecuted(t *testing.T) {
	property(t, func(q *sequence) {
		for range rapid.IntRange(0, 5).Draw(q.t, "steps") {
			q.step()
		}
		change := q.drawChange()
		var opts []TxnOption
		kind := rapid.IntRange(0, 3).Draw(q.t, "kind")
		if kind < 2 && rapid.Bool().Draw(q.t, "spoil") {
			q.spoil()
		}
		switch kind {
		case 0:
			opts = append(opts, WithResync(FullResync))
		case 1:
			opts, change = append(opts, WithResync(DownstreamResync)), nil
		case 2:
			opts = append(opts, WithRevert())
		}
		calls, states := q.w.calls, q.statuses()
		plan, err := q.transaction(change).Plan(q.t.Context(), opts...)
		if err != nil || q.w.calls != calls || q.statuses() != states {
			q.fatalf("P7: the plan had effects: %v", err)
		}
		r, err := q.commit(change, opts...)
		if err != nil {
			q.fatalf("%v", err)
		}
		strip := func(ops []RecordedOp) []string {
			var lines []string
			for _, op := range ops {
				lines = append(lines, fmt.Sprintf("%v %s %v>%v %v>%v %v", op.Operation, op.Key, op.PrevState, op.NewState, op.PrevValue, op.NewValue, op.Flags()))
			}
			return lines
		}
		if got, want := strip(r.Executed), strip(plan); !slices.Equal(got, want) {
			q.fatalf("P7: executed\n  %s\nplanned\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
	})
}

// P8: killed between any two operations, and started anew with a full resync.
func TestP8KilledProcessRecovers(t *testing.T) {
	property(t, func(q *sequence) {
		for range rapid.IntRange(0, 4).Draw(q.t, "steps") {
			q.step()
		}
		left := rapid.IntRange(0, 8).Draw(q.t, "operations until killed")
		q.w.outcome = func(op, key string) outcome {
			if left--; left < 0 {
				q.w.dead = true
			}
			return succeeds
		}
		for range rapid.IntRange(1, 3).Draw(q.t, "last steps") {
			change := q.drawChange()
			q.request(change)
			_, _ = q.commit(change)
		}
		q.w.outcome, q.w.dead = nil, false
		q.logf("killed and started again")
		q.start()
		q.watchInvariants()
		if _, err := q.resync(FullResync); err != nil {
			q.fatalf("P8: %v", err)
		}
		q.expectOracle("P8")
		r, err := q.resync(FullResync)
		if err != nil || len(r.Executed) > 0 {
			q.fatalf("P6 after restart: executed %v (%v)", opsOf(r.Executed), err)
		}
	})
}
