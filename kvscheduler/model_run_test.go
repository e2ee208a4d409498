package kvscheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

// modelSequence is a sequence of steps, stored as JSON.
type modelSequence struct {
	ID      int         `json:"id,omitempty"`
	Batch   bool        `json:"batch,omitempty"`   // b/, c/ and dv/ have batches
	Unknown bool        `json:"unknown,omitempty"` // retrieved values have no origin
	Stage   bool        `json:"stage,omitempty"`   // values s/ with a stage exist
	Steps   []modelStep `json:"steps"`
}

// modelStep is one step:
//
//	txn      a transaction with put and del; a full or upstream resync carries all requested values
//	fail     the n-th call from now on and the following ones fail
//	heal     calls succeed again
//	sb       put and del change the southbound without the scheduler
//	notify   put and del change obtained values and push notifications
//	wait     time passes
//	kill     the process dies after n more operations, and restarts after the next transaction
//	restart  the process restarts with a full resync
type modelStep struct {
	Op     string            `json:"op"`
	Put    map[string]string `json:"put,omitempty"`
	Del    []string          `json:"del,omitempty"`
	Retry  bool              `json:"retry,omitempty"`
	Revert bool              `json:"revert,omitempty"`
	Resync string            `json:"resync,omitempty"` // full, upstream or downstream
	Plan   bool              `json:"plan,omitempty"`   // compare the plan with the execution
	modelFault
}

// modelRun plays a sequence and compares the result of each step with modelExpectation. It checks these
// properties:
//
//	P1  check: existing values and states follow from the last requests alone
//	P2  end: when failures stop, retries and a resync lead to the same state
//	P3  transaction: a reverted one leaves no trace, or its error names the remains (checkReportedErrors)
//	P4  beforeOperation: OBTAINED values are never changed
//	P5  beforeOperation: the dependencies of CONFIGURED values are met (checkP5)
//	P6  end: resyncs without differences execute nothing
//	P7  transaction: the plan equals the execution
//	P8  kill, restart: a new process recovers
type modelRun struct {
	seq           modelSequence
	s             *Scheduler
	sb            *modelSouthbound
	requested     map[string]modelValue
	retry         map[string]bool // keys with a retry policy
	retryUnclear  map[string]bool // keys with an unknown retry policy after a failed revert
	unclaimed     map[string]bool // base keys that only reverted transactions requested
	obtained      map[string]bool // base keys that exist without a request
	known         map[string]bool // base keys that were requested since the start
	explainedKeys map[string]bool // failed values with a known cause
	log           []string
	// unverified: the southbound may differ from the assumptions of the scheduler.
	unverified     bool
	violations     []string
	lastValid      map[string]string // last valid versions of INVALID values before the step
	records        int               // number of processed records
	begunDeletions map[string]bool   // keys of deletions in the step, started or blocked
}

// playModel returns the first violation and a transcript. It must be called in a synctest bubble.
func playModel(seq modelSequence) (violation, transcript string) {
	r := newModelRun(seq)
	defer func() { _ = r.s.Close(); synctest.Wait() }()
	for _, step := range seq.Steps {
		r.step(step)
		if len(r.violations) > 0 {
			break
		}
	}
	if len(r.violations) == 0 {
		r.end()
	}
	if len(r.violations) == 0 {
		return "", ""
	}
	return r.violations[0], strings.Join(r.log, "\n") + "\n!! " + strings.Join(r.violations, "\n!! ")
}

func newModelRun(seq modelSequence) *modelRun {
	r := &modelRun{seq: seq, sb: newModelSouthbound(seq.Batch, seq.Unknown), requested: map[string]modelValue{}, retry: map[string]bool{},
		explainedKeys: map[string]bool{}, unclaimed: map[string]bool{}, retryUnclear: map[string]bool{}, obtained: map[string]bool{}}
	r.sb.before, r.sb.stages = r.beforeOperation, seq.Stage
	r.start()
	return r
}

func (r *modelRun) logf(format string, args ...any) {
	r.log = append(r.log, fmt.Sprintf(format, args...))
}
func (r *modelRun) violated(format string, args ...any) {
	r.violations = append(r.violations, fmt.Sprintf(format, args...))
}

func (r *modelRun) start() {
	if r.s != nil {
		_ = r.s.Close()
	}
	r.s = New(Options{Logger: quietLog(), CallTimeout: time.Second})
	r.sb.register(r.s)
	r.known = map[string]bool{}
	r.settle()
}

// begin stores the state before a step, and returns the existing keys.
func (r *modelRun) begin() map[string]bool {
	r.sb.calls = nil
	r.records, r.begunDeletions = len(r.s.History(noTime, noTime)), map[string]bool{}
	r.lastValid = map[string]string{}
	for key, v := range r.requested {
		if sbv, ok := r.sb.exists[key]; ok && v.Inv {
			r.lastValid[key] = sbv.String()
		}
	}
	return r.sb.keys()
}

func (r *modelRun) step(step modelStep) {
	defer r.settle()
	before := r.begin()
	switch step.Op {
	case "txn":
		r.transaction(step)
		if r.sb.deadAfter >= 0 {
			r.restart()
		}
	case "fail":
		f := step.modelFault
		f.N, f.Times = max(f.N, 1), max(f.Times, 1)
		r.sb.faults = append(r.sb.faults, &f)
		r.logf("fail %s %s: call %d, %d times, late %v", f.Call, f.Key, f.N, f.Times, f.Late)
		return
	case "heal":
		r.sb.faults = nil
		r.logf("heal")
		return
	case "sb":
		r.changeSouthbound(step)
		return
	case "notify":
		r.sb.deadAfter = -1
		r.notify(step)
	case "wait":
		r.logf("wait")
		r.sb.deadAfter = -1
		r.pass(3 * time.Second)
	case "kill":
		r.sb.deadAfter = step.N
		r.logf("kill after %d operations", step.N)
		return
	case "restart":
		r.restart()
	}
	r.logf("  calls %s", strings.Join(r.sb.calls, ", "))
	r.check(step.Op, before)
}

// settle waits until the scheduler is idle. A hanging call lets time pass, which starts retries; it waits for
// these, too, because they use the southbound. The barrier also publishes changes of the southbound to the
// goroutine of the scheduler.
func (r *modelRun) settle() {
	for again := true; again; {
		if err := r.s.Barrier(context.Background()); err != nil {
			panic(err)
		}
		synctest.Wait()
		r.s.queue.mu.Lock()
		again = r.s.queue.busy || len(r.s.queue.jobs) > 0
		r.s.queue.mu.Unlock()
	}
}

// pass lets time pass, including the retries that become due.
func (r *modelRun) pass(d time.Duration) {
	r.settle()
	time.Sleep(d)
	r.settle()
}

var modelResyncs = map[string]ResyncType{"": NotResync, "full": FullResync, "upstream": UpstreamResync, "downstream": DownstreamResync}

func (r *modelRun) transaction(step modelStep) {
	values, invalid, rejected := map[string]modelValue{}, false, false
	for key, text := range step.Put {
		values[key] = mustModelValue(text)
		rejected = rejected || values[key].Inv || values[key].invalidPart()
		invalid = rejected
	}
	next := maps.Clone(r.requested)
	maps.Copy(next, values)
	for _, key := range step.Del {
		delete(next, key)
	}
	for _, v := range r.requested {
		invalid = invalid || v.invalidPart() || v.Inv && step.Resync != ""
	}
	resync := modelResyncs[step.Resync]
	var opts []TxnOption
	if resync != NotResync {
		opts = append(opts, WithResync(resync))
	}
	if step.Retry {
		opts = append(opts, WithRetry(Retry{Period: time.Second}))
	}
	if step.Revert && resync == NotResync {
		opts = append(opts, WithRevert())
	}
	build := func() *Transaction {
		t := r.s.NewTransaction()
		switch resync {
		case NotResync:
			for key, v := range values {
				t.Put(key, val(v.String()))
			}
			for _, key := range step.Del {
				t.Delete(key)
			}
		case DownstreamResync:
		default:
			for key, v := range next {
				t.Put(key, val(v.String()))
				invalid = invalid || v.Inv || v.invalidPart()
			}
		}
		return t
	}
	if resync == DownstreamResync {
		next = r.requested
	}
	r.logf("txn %s%s put %v del %v retry %v revert %v", step.Resync, "", step.Put, step.Del, step.Retry, step.Revert)
	fired, clean, unsure := r.sb.fired, r.clean(), r.unverified
	statuses, content, existed := r.statuses(), r.sb.content(), maps.Clone(r.sb.exists)
	var plan []string
	if step.Plan && !r.sb.dead() {
		ops, err := build().Plan(context.Background(), opts...)
		plan = modelOps(ops)
		r.settle()
		// A hanging call lets time pass, which starts retries.
		if got := r.statuses(); r.sb.fired == fired && (len(r.sb.calls) > 0 || got != statuses || err != nil && !invalid) {
			r.violated("P7: the plan had effects: %v %v", r.sb.calls, err)
		}
	}
	for key := range values {
		if !r.known[key] {
			r.unclaimed[key] = true
		}
		r.known[key] = true
	}
	reads := resync == FullResync || resync == DownstreamResync
	if reads {
		r.addObtained(next)
	}
	firedBefore := r.sb.fired
	seq, err := build().Commit(context.Background(), opts...)
	r.settle()
	rec := r.s.RecordedTxn(seq)
	if rec != nil {
		r.logf("  -> %v\n     %s", err, strings.Join(opsOf(rec.Executed), "\n     "))
	}
	if r.sb.dead() {
		r.requested = next
		return
	}
	// Without reading, a plan cannot know changes of the southbound.
	if step.Plan && rec != nil && r.sb.fired == fired && clean && !step.Revert && (!unsure || reads) {
		if got := modelOps(rec.Executed); !slices.Equal(got, plan) {
			r.violated("P7: executed\n  %s\nplanned\n  %s", strings.Join(got, "\n  "), strings.Join(plan, "\n  "))
		}
	}
	te := (*TransactionError)(nil)
	reverted := errors.As(err, &te) && te.Reverted
	if te != nil {
		for _, e := range te.Errors {
			if pe := (*PanicError)(nil); errors.As(e, &pe) && pe.Descriptor == "kvscheduler" {
				r.violated("defect: %v", e)
			}
		}
	}
	if err != nil && r.sb.fired == fired && clean && !invalid && !r.unverified {
		r.violated("error without failures: %v", err)
	}
	if reads && r.unverified && r.sb.fired == firedBefore {
		r.unverified = false
	} else if r.readFailed(firedBefore) {
		r.unverified = true
	}
	if reads { // the scheduler may choose the origin of values that only reverted transactions requested
		for key, n := range r.nodes() {
			if r.unclaimed[key] && n.is(fromSB) {
				r.obtained[key] = true
			}
		}
	}
	if !reverted {
		for key := range values {
			delete(r.unclaimed, key)
		}
		r.requested = next
		if resync != DownstreamResync {
			keys := slices.AppendSeq(slices.Clone(step.Del), maps.Keys(values))
			if resync != NotResync {
				keys = slices.AppendSeq(slices.AppendSeq(slices.AppendSeq(keys, maps.Keys(next)), maps.Keys(r.retry)), maps.Keys(r.known))
			}
			for _, key := range keys {
				r.retry[key] = step.Retry
				delete(r.retryUnclear, key)
			}
			for key := range values {
				delete(r.obtained, key)
			}
		} else if step.Retry {
			for key := range r.known {
				r.retry[key] = true
				delete(r.retryUnclear, key)
			}
		}
		return
	}
	if clean && !r.unverified {
		r.checkReportedErrors(te, existed)
	}
	// A failed undo is retried with the policy of the transaction, or else with the one before it.
	for _, key := range slices.AppendSeq(slices.Clone(step.Del), maps.Keys(values)) {
		if n := r.nodes()[key]; n != nil && n.State() == pb.ValueState_FAILED && step.Retry && clean {
			r.violated("undo of %s failed: state FAILED, want RETRYING: %v", key, n.err())
		}
		r.retryUnclear[key] = r.retryUnclear[key] || step.Retry != r.retry[key]
	}
	if clean && !r.unverified && (r.sb.fired == fired || r.sb.fired == fired+1 && !rejected) {
		if got := r.sb.content(); !slices.Equal(got, content) {
			r.violated("P3: southbound is\n  %s\nwas\n  %s", strings.Join(got, "\n  "), strings.Join(content, "\n  "))
		}
		if got := r.statuses(); got != statuses {
			r.violated("P3: states are\n%s\nwere\n%s", got, statuses)
		}
	}
}

// checkReportedErrors checks that the error of a reverted transaction names the values that differ (P3).
func (r *modelRun) checkReportedErrors(te *TransactionError, existed map[string]modelValue) {
	told := map[string]bool{}
	for _, e := range te.Errors {
		told[e.Key] = true
	}
	for _, values := range []map[string]modelValue{existed, r.sb.exists} {
		for key := range values {
			was, before := existed[key]
			is, after := r.sb.exists[key]
			if before == after && was.String() == is.String() {
				continue
			}
			if base := modelBase(key); !told[key] && !told[base] && !told[base[:2]] {
				r.violated("P3: %s changed, but the error does not name it: %v", key, te)
			}
		}
	}
}

func (r *modelRun) readFailed(since int) bool {
	if r.sb.fired == since {
		return false
	}
	failed := false
	for _, prefix := range []string{"a/", "b/", "c/", "s/", "o/"} {
		failed = failed || r.sb.hit[prefix]
		delete(r.sb.hit, prefix)
	}
	return failed
}

// clean reports whether no value has failed or drifted.
func (r *modelRun) clean() bool {
	clean := true
	r.s.graph.Ascend("", func(_ string, n *node) bool {
		clean = clean && !n.is(unknown|broken|drifted) && !hasFailed(n)
		return clean
	})
	return clean
}

func (r *modelRun) statuses() string {
	var b strings.Builder
	for _, st := range statusesOf(r.s.graph, "") {
		for _, v := range append([]*pb.ValueStatus{st.Value}, st.DerivedValues...) {
			fmt.Fprintf(&b, "%s %v %v %s\n", v.Key, v.State, v.Details, v.Error)
		}
	}
	return b.String()
}

func modelOps(ops []RecordedOp) []string {
	var lines []string
	for _, op := range ops {
		lines = append(lines, fmt.Sprintf("%v %s %v>%v %v>%v %v", op.Operation, op.Key, op.PrevState, op.NewState, op.PrevValue, op.NewValue, op.Flags()))
	}
	return lines
}

// addObtained adds the values that a resync finds without a request.
func (r *modelRun) addObtained(next map[string]modelValue) {
	for key := range next {
		r.known[key] = true
		delete(r.obtained, key)
	}
	if r.unverified {
		for key := range r.obtained {
			if _, ok := r.sb.exists[key]; !ok {
				delete(r.obtained, key)
			}
		}
	}
	for key := range r.sb.exists {
		if key == modelBase(key) && (strings.HasPrefix(key, "o/") || r.seq.Unknown && !r.known[key]) {
			r.obtained[key] = true
		}
	}
}

func (r *modelRun) changeSouthbound(step modelStep) {
	for key, text := range step.Put {
		if v, err := parseModelValue(text); err == nil && !v.Inv && !strings.HasPrefix(key, "o/") {
			r.sb.put(key, v)
		}
	}
	for _, key := range step.Del {
		if !strings.HasPrefix(key, "o/") {
			r.sb.remove(key)
		}
	}
	r.unverified = true
	r.logf("sb put %v del %v", step.Put, step.Del)
}

func (r *modelRun) notify(step modelStep) {
	var ns []Notification
	for _, key := range step.Del {
		r.sb.remove(key)
		delete(r.obtained, key)
		ns = append(ns, Notification{Key: key})
	}
	for _, key := range slices.Sorted(maps.Keys(step.Put)) {
		v := mustModelValue(step.Put[key])
		r.sb.put(key, v)
		r.obtained[key] = true
		ns = append(ns, Notification{Key: key, Value: val(v.String())})
	}
	r.logf("notify put %v del %v", step.Put, step.Del)
	if err := r.s.PushSBNotification(ns...); err != nil {
		r.violated("notification: %v", err)
	}
	r.settle()
}

func (r *modelRun) restart() {
	r.logf("restart")
	r.collectBegunDeletions()
	r.records = 0
	r.sb.deadAfter = -1
	r.sb.faults = nil
	r.start()
	r.obtained, r.retryUnclear, r.retry = map[string]bool{}, map[string]bool{}, map[string]bool{}
	clear(r.sb.hit)
	clear(r.explainedKeys)
	r.unverified = true
	r.transaction(modelStep{Op: "txn", Resync: "full"})
}

// end checks that retries and then a resync lead to the expectation after failures stop.
func (r *modelRun) end() {
	r.logf("end: failures continue")
	r.sb.deadAfter = -1
	before := r.begin()
	r.pass(time.Minute)
	r.logf("  calls %s", strings.Join(r.sb.calls, ", "))
	r.check("retries", before)
	if len(r.violations) > 0 {
		return
	}
	r.logf("end: failures stop")
	r.sb.faults = nil
	before = r.begin()
	r.pass(time.Minute)
	r.logf("  calls %s", strings.Join(r.sb.calls, ", "))
	r.check("retries", before)
	for _, st := range r.s.ValueStatuses("") {
		for _, v := range append([]*pb.ValueStatus{st.Value}, st.DerivedValues...) {
			if v.State == pb.ValueState_RETRYING {
				r.violated("%s stays RETRYING: %s", v.Key, v.Error)
			}
		}
	}
	for _, typ := range []string{"downstream", "full", "upstream"} {
		if len(r.violations) > 0 {
			return
		}
		troubled := !r.clean() || r.unverified || typ == "downstream"
		before := r.begin()
		r.transaction(modelStep{Op: "txn", Resync: typ})
		r.logf("  calls %s", strings.Join(r.sb.calls, ", "))
		if !troubled && len(r.sb.calls) > 0 {
			r.violated("P6: %s resync without differences calls %v", typ, r.sb.calls)
		}
		r.check(typ+" resync", before)
		if !r.clean() {
			r.violated("failed values after a resync without failures:\n%s", r.statuses())
		}
	}
}
