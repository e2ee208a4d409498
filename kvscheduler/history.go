package kvscheduler

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/graph"
	"github.com/contiv/contiv/kvscheduler/record"
	"google.golang.org/protobuf/proto"
)

// history is the bounded list of past transactions with their changes of the graph. The worker
// writes it; any goroutine may read it.
type history struct {
	limits HistoryLimits
	start  time.Time
	view   func() *graph.Graph[*node] // returns the last published graph

	mu        sync.RWMutex
	records   []*entry // oldest first
	bytes     int
	protected int    // number of leading records within InitPeriod
	gap       bool   // records after the protected ones were dropped
	truncated bool   // the oldest records were dropped
	dropped   uint64 // last transaction with a dropped record
	// unrecorded changes are published but not yet part of a record: the record of a transaction is added
	// later, and some transactions have none.
	unrecorded []change
}

// entry is a transaction with its changes of the graph.
type entry struct {
	txn     *RecordedTxn
	changes []change
	bytes   int
}

func newHistory(l HistoryLimits, view func() *graph.Graph[*node]) *history {
	if l.Age <= 0 {
		l.Age = 24 * time.Hour
	}
	if l.Count <= 0 {
		l.Count = 10_000
	}
	if l.Bytes <= 0 {
		l.Bytes = 64 << 20
	}
	if l.InitPeriod <= 0 {
		l.InitPeriod = time.Hour
	}
	return &history{limits: l, start: time.Now(), view: view}
}

func (h *history) publish(g *graph.Graph[*node], changes []change) {
	if h.limits.Disabled {
		g.Publish()
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	g.Publish()
	h.unrecorded = append(h.unrecorded, changes...)
}

// add records a transaction and returns the changes since the previous record.
func (h *history) add(t *RecordedTxn) []change {
	r := &entry{txn: t, changes: h.unrecorded} // written only by the worker
	r.bytes = r.size()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unrecorded = nil
	h.records = append(h.records, r)
	h.bytes += r.bytes
	if t.Start.Sub(h.start) < h.limits.InitPeriod && h.protected == len(h.records)-1 {
		h.protected++
	}
	h.trim(t.Stop)
	return r.changes
}

// trim drops the oldest records beyond the limits. Records of InitPeriod are dropped last, and only
// to satisfy the limit on bytes.
func (h *history) trim(now time.Time) {
	drop := 0
	for i := h.protected; i < len(h.records); i++ {
		if len(h.records)-drop <= h.limits.Count && h.bytes <= h.limits.Bytes && now.Sub(h.records[i].txn.Stop) <= h.limits.Age {
			break
		}
		h.bytes -= h.records[i].bytes
		h.dropped = h.records[i].txn.SeqNum
		drop++
	}
	if drop > 0 {
		if h.protected > 0 {
			h.gap = true
		} else {
			h.truncated = true
		}
		h.records = append(h.records[:h.protected:h.protected], h.records[h.protected+drop:]...)
	}
	for h.bytes > h.limits.Bytes && len(h.records) > 0 {
		h.bytes -= h.records[0].bytes
		h.dropped = max(h.dropped, h.records[0].txn.SeqNum)
		h.records[0] = nil
		h.records = h.records[1:]
		h.truncated = true
		if h.protected > 0 {
			if h.protected--; h.protected == 0 {
				h.gap = false // the remaining records are contiguous
			}
		}
	}
}

// size estimates the memory that the record retains.
func (r *entry) size() int {
	const txn, op, retrieve, nodes, info = 280, 220, 160, 400, 200
	bytes := txn + len(r.txn.Description)
	for _, kv := range r.txn.Values {
		bytes += 64 + len(kv.Key) + sizeOf(kv.Value)
	}
	bytes += op * len(r.txn.Planned)
	for i := range r.txn.Executed {
		o := &r.txn.Executed[i]
		bytes += op + len(o.Key)
		if o.NewErr != nil {
			bytes += len(o.NewErr.Error())
		}
	}
	for i := range r.txn.Retrieved {
		read := &r.txn.Retrieved[i]
		bytes += retrieve
		for _, key := range read.Keys {
			bytes += 16 + len(key)
		}
		if read.Err != nil {
			bytes += len(read.Err.Error())
		}
	}
	for _, c := range r.changes {
		bytes += nodes + info
		if c.old != nil {
			bytes += sizeOf(c.old.have) + len(c.old.key)
		}
	}
	return bytes
}

func sizeOf(v proto.Message) int {
	if v == nil {
		return 0
	}
	return 64 + 2*proto.Size(v)
}

func (h *history) list(since, until time.Time) []*entry {
	h.mu.RLock()
	defer h.mu.RUnlock()
	from, to := 0, len(h.records)
	if !since.IsZero() {
		from = sort.Search(to, func(i int) bool { return !h.records[i].txn.Stop.Before(since) })
	}
	if !until.IsZero() {
		to = sort.Search(to, func(i int) bool { return h.records[i].txn.Start.After(until) })
	}
	if from >= to {
		return nil
	}
	return append([]*entry(nil), h.records[from:to]...)
}

// History returns the records of the transactions that overlap [since, until], oldest first. A zero
// time is an open end.
func (s *Scheduler) History(since, until time.Time) []*RecordedTxn {
	records := s.history.list(since, until)
	txns := make([]*RecordedTxn, len(records))
	for i, r := range records {
		txns[i] = r.txn
	}
	return txns
}

// RecordedTxn returns the record of a transaction, or nil if it is not in the history.
func (s *Scheduler) RecordedTxn(seqNum uint64) *RecordedTxn {
	h := s.history
	h.mu.RLock()
	defer h.mu.RUnlock()
	i := sort.Search(len(h.records), func(i int) bool { return h.records[i].txn.SeqNum >= seqNum })
	if i < len(h.records) && h.records[i].txn.SeqNum == seqNum {
		return h.records[i].txn
	}
	return nil
}

// Each record holds the old and the new version of the nodes that the transaction changed. The graph at
// a past moment is the present graph with the later changes undone. Only the paths to the changed
// nodes are copied.

// ErrNotRecorded is returned for a moment that the history does not cover.
var ErrNotRecorded = errors.New("not in the history")

// removesNode reports whether the change removed the node from the graph.
func (c change) removesNode() bool {
	s := c.new.State()
	return c.new.want == nil && c.new.have == nil && (s == pb.ValueState_NONEXISTENT || s == pb.ValueState_REMOVED)
}

// at returns the graph at the given time.
func (h *history) at(t time.Time) (*graph.Graph[*node], error) {
	if h.limits.Disabled {
		return nil, fmt.Errorf("%w: the history is disabled", ErrNotRecorded)
	}
	h.mu.Lock() // Copy changes the original
	defer h.mu.Unlock()
	g := h.before(sort.Search(len(h.records), func(i int) bool { return h.records[i].txn.Stop.After(t) }))
	if g == nil {
		return nil, fmt.Errorf("%w: %s", ErrNotRecorded, t.Format(time.RFC3339))
	}
	return g, nil
}

// after returns the graph after a recorded transaction.
func (h *history) after(seq uint64) (*graph.Graph[*node], error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dropped > seq {
		return nil, fmt.Errorf("%w: transaction %d, which came after %d", ErrNotRecorded, h.dropped, seq)
	}
	return h.undoFrom(sort.Search(len(h.records), func(i int) bool { return h.records[i].txn.SeqNum > seq })), nil
}

// before returns the graph before the i-th record, or nil if it is unknown. The caller holds mu.
func (h *history) before(i int) *graph.Graph[*node] {
	if i < h.protected && h.gap {
		// The protected records are not contiguous with the present: replay them from the start.
		if h.truncated {
			return nil
		}
		g := graph.New[*node]()
		for _, r := range h.records[:i] {
			r.redo(g)
		}
		return g
	}
	if i == h.protected && h.gap || i == 0 && h.truncated {
		return nil
	}
	return h.undoFrom(i)
}

// undoFrom returns the present graph without the unrecorded changes and the changes of the records from
// the i-th on. The caller holds mu.
func (h *history) undoFrom(i int) *graph.Graph[*node] {
	g := h.view().Copy()
	undo(g, h.unrecorded)
	for _, r := range slices.Backward(h.records[i:]) {
		undo(g, r.changes)
	}
	return g
}

func undo(g *graph.Graph[*node], changes []change) {
	for _, c := range slices.Backward(changes) {
		if c.old == nil {
			g.Delete(c.new.key)
		} else {
			g.Set(c.old)
		}
	}
}

func (r *entry) redo(g *graph.Graph[*node]) {
	for _, c := range r.changes {
		if c.removesNode() {
			g.Delete(c.new.key)
		} else {
			g.Set(c.new)
		}
	}
}

// Timeline returns the recorded revisions of a key, oldest first.
func (s *Scheduler) Timeline(key string) []Revision {
	var revisions []Revision
	for _, r := range s.history.list(time.Time{}, time.Time{}) {
		var last *change
		for i := range r.changes {
			if r.changes[i].new.key == key && !r.changes[i].silent() {
				last = &r.changes[i]
			}
		}
		if last == nil {
			continue
		}
		rev := Revision{Txn: r.txn.SeqNum, Since: r.txn.Stop}
		if !last.removesNode() {
			rev.Value = last.new.snapshot()
		}
		if n := len(revisions); n > 0 {
			revisions[n-1].Until = rev.Since
		}
		revisions = append(revisions, rev)
	}
	return revisions
}

// Committed is a recorded transaction with the values that it left. It is immutable, and may be used
// later and by any goroutine.
type Committed struct {
	Txn       *RecordedTxn
	changes   []change
	scheduler *Scheduler
}

// After returns all values after the transaction. It returns ErrNotRecorded if a later record was dropped.
func (c Committed) After() (Snapshot, error) {
	g, err := c.scheduler.history.after(c.Txn.SeqNum)
	if err != nil {
		return Snapshot{}, err
	}
	return c.scheduler.snapshotOf(g), nil
}

// Changes returns the values that the transaction changed, each once, in no particular order.
func (c Committed) Changes() []record.Change {
	last := make(map[string]int, len(c.changes))
	var list []record.Change
	for _, ch := range c.changes {
		now := record.Change{Key: ch.new.key, Silent: ch.silent()}
		if !ch.removesNode() {
			now.Value = ch.new.snapshot()
		}
		if i, again := last[now.Key]; again {
			now.Silent = now.Silent && list[i].Silent
			list[i] = now
			continue
		}
		last[now.Key] = len(list)
		list = append(list, now)
	}
	return list
}
