package kvscheduler

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"google.golang.org/protobuf/proto"
)

// NoSeqNum stands for a missing sequence number, for example of a commit that did not wait.
const NoSeqNum uint64 = math.MaxUint64

// Transaction is a set of changes that are committed together. It must be used by one goroutine and
// committed once.
type Transaction struct {
	s      *Scheduler
	values []KeyValue
	one    [1]KeyValue // avoids an allocation for most transactions
}

// NewTransaction returns an empty transaction.
func (s *Scheduler) NewTransaction() *Transaction {
	t := &Transaction{s: s}
	t.values = t.one[:0]
	return t
}

// Put requests the value for the key. The last Put or Delete of a key wins. The caller must not change
// the value afterwards.
func (t *Transaction) Put(key string, value proto.Message) *Transaction {
	if isNil(value) {
		value = nil
	}
	t.values = append(t.values, KeyValue{Key: key, Value: value})
	return t
}

// Delete requests that the key has no value.
func (t *Transaction) Delete(key string) *Transaction { return t.Put(key, nil) }

// sorted returns the last value of each key, sorted by key.
func (t *Transaction) sorted() []KeyValue {
	values := t.values
	ordered := true
	for i := 1; i < len(values) && ordered; i++ {
		ordered = values[i-1].Key < values[i].Key
	}
	if ordered {
		return slices.Clip(values)
	}
	slices.SortStableFunc(values, func(a, b KeyValue) int { return strings.Compare(a.Key, b.Key) })
	n := 0
	for i := range values {
		if i+1 < len(values) && values[i+1].Key == values[i].Key {
			continue
		}
		values[n] = values[i]
		n++
	}
	clear(values[n:])
	t.values = values[:n]
	return slices.Clip(t.values)
}

// job validates the options and returns the job of the transaction.
func (t *Transaction) job(opts []TxnOption) (*job, error) {
	j, ok := t.s.jobPool.Get().(*job)
	if !ok {
		j = &job{result: make(chan jobResult, 1)}
	}
	j.typ, j.values = NBTransaction, t.sorted()
	for _, o := range opts {
		o(&j.opts)
	}
	switch {
	case j.opts.revert && j.opts.resync != NotResync:
		return nil, ErrRevertWithResync
	case j.opts.resync == DownstreamResync && len(j.values) > 0:
		return nil, ErrDownstreamWithValues
	case j.opts.keys != nil && j.opts.resync != DownstreamResync:
		return nil, ErrKeysWithoutDownstream
	case len(j.values) > 0 && j.values[0].Key == "":
		return nil, ErrEmptyKey
	}
	for i := range j.values {
		if key := j.values[i].Key; !utf8.ValidString(key) {
			return nil, fmt.Errorf("%w: %q", ErrInvalidKey, key)
		}
	}
	return j, nil
}

// Commit executes the transaction and returns its sequence number after the new state is visible to
// readers. Failed operations are reported in a *TransactionError. If ctx ends before the transaction
// has started, the transaction is withdrawn; afterwards, ctx has no effect.
//
// A callback of a descriptor must not call Commit without WithoutBlocking.
func (t *Transaction) Commit(ctx context.Context, opts ...TxnOption) (uint64, error) {
	j, err := t.job(opts)
	if err != nil {
		return NoSeqNum, err
	}
	wait := !j.opts.nonBlocking
	if !wait {
		j.result = nil
	} else if ctx.Err() == nil && t.s.queue.tryStart() {
		j.queued = time.Now()
		r := t.s.do(j, j.queued)
		t.s.queue.finish()
		t.s.reuse(j)
		return r.seq, r.err
	}
	if err := t.s.queue.put(ctx, j, wait); err != nil {
		t.s.metrics.dropped.Inc()
		return NoSeqNum, err
	}
	if !wait {
		return NoSeqNum, nil
	}
	seq, err := t.s.await(ctx, j)
	t.s.reuse(j)
	return seq, err
}

// reuse returns a finished job to the pool.
func (s *Scheduler) reuse(j *job) {
	*j = job{result: j.result}
	s.jobPool.Put(j)
}

// Plan returns the operations that Commit would execute if none failed, in order. It changes nothing,
// and reads the southbound for a resync. Invalid values are reported in a *TransactionError, together
// with the plan.
func (t *Transaction) Plan(ctx context.Context, opts ...TxnOption) ([]RecordedOp, error) {
	j, err := t.job(opts)
	if err != nil {
		return nil, err
	}
	var ops []RecordedOp
	var planErr error
	err = t.s.onWorker(ctx, func() { ops, planErr = t.s.dryRun(j) })
	if err == nil {
		err = planErr
	}
	return ops, err
}

// Notification is a change of an OBTAINED value in the southbound. A nil Value means that the value
// was removed.
type Notification struct {
	Key      string
	Value    proto.Message
	Metadata any
}

// check validates the key, and replaces a nil pointer by a nil Value.
func (n *Notification) check() error {
	if n.Key == "" {
		return ErrEmptyKey
	}
	if !utf8.ValidString(n.Key) {
		return fmt.Errorf("%w: %q", ErrInvalidKey, n.Key)
	}
	if isNil(n.Value) {
		n.Value = nil
	}
	return nil
}

// fetchNotifications fetches the notifications of the job.
func (j *job) fetchNotifications(log *slog.Logger) {
	for _, n := range j.fetch() {
		if err := n.check(); err != nil {
			log.Error("notification ignored: invalid key", "error", err)
			continue
		}
		j.notifications = append(j.notifications, n)
	}
}

// PushSBNotification queues one transaction with changes of OBTAINED values. It never waits, and
// returns ErrQueueFull instead. Notifications about requested values are ignored.
func (s *Scheduler) PushSBNotification(n ...Notification) error {
	if len(n) == 0 {
		return nil
	}
	n = slices.Clone(n)
	for i := range n {
		if err := n[i].check(); err != nil {
			return err
		}
	}
	err := s.queue.put(context.Background(), &job{typ: SBNotification, notifications: n}, false)
	if err != nil {
		s.metrics.dropped.Inc()
	}
	return err
}

// PushSBNotifications queues a transaction that calls take when it starts and applies the returned
// notifications. A source of many changes can merge the changes that arrive while other
// transactions run: it calls PushSBNotifications for the first change, and again only after take was
// called. The queue always accepts the transaction.
//
// take must not call the scheduler, and must not keep its result. Notifications with an invalid key
// are logged and ignored.
func (s *Scheduler) PushSBNotifications(take func() []Notification) error {
	if !s.queue.push(&job{typ: SBNotification, fetch: take}) {
		s.metrics.dropped.Inc()
		return ErrClosed
	}
	return nil
}

// ValidateSemantically validates the values and their derived values with their descriptors. It
// schedules nothing. Invalid values are reported in a *TransactionError. nil values and keys without a
// descriptor are valid.
func (s *Scheduler) ValidateSemantically(ctx context.Context, values ...KeyValue) error {
	var errs []*KeyError
	err := s.onWorker(ctx, func() {
		x := s.newExec(&job{})
		for _, kv := range values {
			if isNil(kv.Value) {
				continue
			}
			h := x.reg.find(kv.Key)
			x.validate(h, kv)
			derived, err := h.derived(kv.Key, kv.Value)
			if err != nil {
				_ = x.addError(kv.Key, pb.TxnOperation_VALIDATE, err)
			}
			for _, d := range derived {
				if !isNil(d.Value) {
					x.validate(x.reg.find(d.Key), d)
				}
			}
		}
		errs = x.errs
	})
	if err == nil && len(errs) > 0 {
		err = &TransactionError{SeqNum: NoSeqNum, Errors: errs}
	}
	return err
}

func (x *exec) validate(h *handler, kv KeyValue) {
	if err := h.validate(kv.Key, kv.Value); err != nil {
		_ = x.addError(kv.Key, pb.TxnOperation_VALIDATE, err)
	}
	if _, err := h.dependencies(kv.Key, kv.Value); err != nil {
		_ = x.addError(kv.Key, pb.TxnOperation_VALIDATE, err)
	}
}
