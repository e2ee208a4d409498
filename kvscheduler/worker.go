package kvscheduler

import (
	"context"
	"log/slog"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

// work processes jobs until the queue is closed, except for inline jobs (see queue.tryStart).
func (s *Scheduler) work() {
	defer close(s.stopped)
	defer s.caller.close()
	for {
		j := s.queue.pop()
		if j == nil {
			return
		}
		r := s.do(j, time.Now())
		s.queue.finish()
		if j.result != nil {
			j.result <- r
		}
	}
}

// do executes a job. The calling goroutine is the worker until do returns.
func (s *Scheduler) do(j *job, now time.Time) (r jobResult) {
	s.heartbeat.beat(s.heartbeat.at(now))
	if j.fn != nil {
		j.fn()
	} else {
		r.seq, r.err = s.process(j, now)
	}
	s.heartbeat.stop()
	s.exec = exec{} // release replaced nodes
	if s.sets.large() {
		s.sets = nil
	}
	return r
}

// newExec returns the execution of a job. It invalidates the previous one.
func (s *Scheduler) newExec(j *job) *exec {
	s.epoch++
	s.exec = exec{
		view:   view{reg: s.registry.Load(), g: s.graph, keySets: s.emptySets(), epoch: s.epoch, seq: s.nextSeq, job: j},
		opLog:  opLog{recording: !s.history.limits.Disabled || j.drift != "" || j.typ == SBNotification},
		caller: s.caller, formerKeys: s.formerKeys, log: s.log,
	}
	return &s.exec
}

// keySets are the key sets of an exec. The next exec reuses their memory.
type keySets struct {
	scope      scope               // base keys that the transaction requests
	inProgress smallMap[phase]     // keys that are being processed further up the call stack
	toReadBack map[string]struct{} // base keys to be read back
	scratch    []string
	// providers remembers, by prefix, the key that last satisfied an AnyOf, and is tried first.
	providers  map[string]string
	cycleCache cycleCache
	rechecks   map[string]recheckState // keys in recheckQueue, and how often they were checked
}

// large reports whether the sets hold too much memory for reuse.
func (s *keySets) large() bool {
	const large = 256
	return s != nil && (len(s.scope.positions.more) > large || len(s.toReadBack) > large || cap(s.scratch) > large)
}

// emptySets returns the sets of the previous exec, cleared.
func (s *Scheduler) emptySets() *keySets {
	if s.sets == nil || s.sets.large() {
		s.sets = &keySets{toReadBack: map[string]struct{}{}, rechecks: map[string]recheckState{}, providers: map[string]string{}}
	}
	s.sets.scope.clear()
	s.sets.inProgress.clear()
	clear(s.sets.toReadBack)
	clear(s.sets.rechecks)
	clear(s.sets.providers)
	s.sets.cycleCache.reset()
	s.sets.scratch = s.sets.scratch[:0]
	return s.sets
}

// process executes a transaction, publishes and records its result, and schedules retries.
func (s *Scheduler) process(j *job, start time.Time) (seq uint64, err error) {
	if j.drift != "" {
		defer s.drift.end()
	}
	if j.typ == RetryFailedOps || j.drift != "" || j.typ == RetryUnimplOps {
		if !s.stillNeeded(j) {
			return NoSeqNum, nil
		}
	}
	spent := s.caller.spent
	var planned []RecordedOp
	if j.opts.simulate {
		planned, _ = s.dryRun(j) // the execution reports the errors again
	}
	x := s.newExec(j)
	x.planned = planned
	if j.opts.revert {
		x.beforeTxn = s.graph.Copy()
	}
	reverted := x.execute(s.log)
	for _, n := range x.removals {
		s.formerKeys.add(n.key)
	}
	for _, c := range x.changes {
		if c.silent() {
			c.new.txn = c.old.txn
		}
	}
	if len(x.changes) > 0 {
		s.publish(x)
	}
	stop := time.Now()
	s.metrics.processed(j, start, stop)
	if len(x.ops) == 0 && len(x.errs) == 0 && (j.drift != "" && !j.restores() || j.typ == SBNotification) {
		return NoSeqNum, nil
	}
	s.nextSeq++
	s.metrics.operations(x, s.caller.spent-spent)
	s.record(x, start, stop, s.caller.spent-spent)
	s.scheduleRetries(x)
	if len(x.errs) > 0 {
		err = &TransactionError{SeqNum: x.seq, Errors: x.errs, Reverted: reverted}
		s.log.Warn("transaction failed", "seq", x.seq, "type", j.typ, "errors", len(x.errs), "reverted", reverted, "error", err)
	} else if j.restores() {
		s.log.Info("southbound restored", "seq", x.seq, "reason", j.drift, "operations", len(x.ops)-x.replacedOps, "duration", stop.Sub(start))
	} else if s.log.Enabled(context.Background(), slog.LevelDebug) {
		s.log.Debug("transaction", "seq", x.seq, "type", j.typ, "operations", len(x.ops)-x.replacedOps, "duration", stop.Sub(start))
	}
	return x.seq, err
}

// execute runs the transaction. A panic is a defect of the engine: it becomes an error of the
// transaction, and the scheduler continues.
func (x *exec) execute(log *slog.Logger) (reverted bool) {
	var err error
	func() {
		defer caught(&err, "kvscheduler", "engine")
		runner{x}.run()
	}()
	if err != nil {
		log.Error("transaction panicked", "seq", x.seq, "error", err)
		x.errs = append(x.errs, &KeyError{Err: err})
		x.commitAll() // operations executed so far are in effect
	}
	return x.reverting
}

// stillNeeded reports whether a job that the scheduler queued itself has anything left to do.
func (s *Scheduler) stillNeeded(j *job) bool {
	v := &view{keySets: &keySets{}, g: s.graph, reg: s.registry.Load(), job: j}
	switch {
	case j.typ == RetryFailedOps:
		return len(j.retryValues(v)) > 0
	case j.typ == RetryUnimplOps:
		return len(v.newlyImplemented()) > 0
	default:
		reason, all, keys := s.drift.drain()
		j.drift = reason
		j.opts.description = "drift: " + reason
		if all {
			j.opts.retry = &DefaultRetry
			return true
		}
		j.opts.keys = v.driftKeys(keys)
		return len(j.opts.keys) > 0
	}
}

// dryRun executes a job on a copy of the graph, without operations.
func (s *Scheduler) dryRun(j *job) ([]RecordedOp, error) {
	x := s.newExec(j)
	x.g = s.graph.Copy()
	x.reader, x.caller = s.caller, nil
	x.recording = true
	x.execute(s.log)
	var err error
	if len(x.errs) > 0 {
		err = &TransactionError{SeqNum: NoSeqNum, Errors: x.errs}
	}
	return x.executedOps(), err
}

func (s *Scheduler) record(x *exec, start, stop time.Time, southbound time.Duration) {
	if s.history.limits.Disabled {
		return
	}
	j := x.job
	t := &RecordedTxn{
		SeqNum: x.seq, Type: j.typ, Resync: j.opts.resync, Description: j.opts.description,
		Start: start, Stop: stop, SouthboundTime: southbound,
		Values: j.values, Planned: x.planned, Executed: x.executedOps(), Retrieved: x.executedReads(),
	}
	for _, n := range j.notifications {
		t.Values = append(t.Values, KeyValue{Key: n.Key, Value: n.Value})
	}
	if j.typ == RetryFailedOps {
		t.RetryForTxn, t.RetryAttempt = j.retryOf, j.attempt
	}
	if j.typ == RetryFailedOps || j.typ == RetryUnimplOps {
		t.Values = x.retried
	}
	changes := s.history.add(t)
	if s.recorder != nil {
		s.recorder(Committed{Txn: t, changes: changes, scheduler: s})
	}
}

// scheduleRetries starts one timer per group of failed values with the same delay and attempt.
func (s *Scheduler) scheduleRetries(x *exec) {
	type group struct {
		delay   time.Duration
		attempt int
	}
	var groups map[group]*job
	for _, c := range x.changes {
		n := c.new
		if n.State() != pb.ValueState_RETRYING || n.info() == nil || n.info().seq != x.seq || n.info().attempt == 0 {
			continue
		}
		g := group{n.info().delay, n.info().attempt}
		if groups == nil {
			groups = map[group]*job{}
		}
		j := groups[g]
		if j == nil {
			j = &job{typ: RetryFailedOps, retryOf: x.seq, attempt: g.attempt, retryKeys: map[string]struct{}{}}
			groups[g] = j
			s.timers.after(g.delay, func() { s.queue.push(j) })
		}
		j.retryKeys[n.baseKey()] = struct{}{}
	}
}
