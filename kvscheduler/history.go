package kvscheduler

import (
	"errors"
	"fmt"
	"sort"
	"sync"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/graph"
	"github.com/contiv/contiv/kvscheduler/record"
	"google.golang.org/protobuf/proto"
)

// history is the bounded list of past transactions, with what each changed in
// the graph. Writers are the worker, readers anybody.
type history struct {
	limits HistoryLimits
	start  time.Time

	mu      sync.RWMutex
	records []*entry // oldest first
	bytes   int
	init    int                 // how many of the first records are protected by InitPeriod
	gap     bool                // records after those were dropped
	cut     bool                // records before all others were dropped
	graph   *graph.Graph[*node] // after the last record
}

// entry is a transaction with its changes of the graph.
type entry struct {
	txn     *RecordedTxn
	changes []change
	bytes   int
}

func newHistory(l HistoryLimits) *history {
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
	return &history{limits: l, start: time.Now()}
}

func (h *history) add(t *RecordedTxn, changes []change, after *graph.Graph[*node]) {
	r := &entry{txn: t, changes: changes}
	r.bytes = r.size()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.graph = after
	h.records = append(h.records, r)
	h.bytes += r.bytes
	if t.Start.Sub(h.start) < h.limits.InitPeriod && h.init == len(h.records)-1 {
		h.init++
	}
	h.trim(t.Stop)
}

// trim drops records beyond the limits: the oldest first, those of the initial
// period last, and only if the bytes alone require it.
func (h *history) trim(now time.Time) {
	drop := 0
	for i := h.init; i < len(h.records); i++ {
		if len(h.records)-drop <= h.limits.Count && h.bytes <= h.limits.Bytes && now.Sub(h.records[i].txn.Stop) <= h.limits.Age {
			break
		}
		h.bytes -= h.records[i].bytes
		drop++
	}
	if drop > 0 {
		if h.init > 0 {
			h.gap = true
		} else {
			h.cut = true
		}
		h.records = append(h.records[:h.init:h.init], h.records[h.init+drop:]...)
	}
	for h.bytes > h.limits.Bytes && len(h.records) > 0 {
		h.bytes -= h.records[0].bytes
		h.records[0] = nil
		h.records = h.records[1:]
		h.cut = true
		if h.init > 0 {
			if h.init--; h.init == 0 {
				h.gap = false // what is left is in one piece
			}
		}
	}
}

// size estimates the memory that the record keeps alive.
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

// list returns the records that overlap [since, until].
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

// History returns the records of transactions that overlap [since, until],
// oldest first. Zero times are open ends.
func (s *Scheduler) History(since, until time.Time) []*RecordedTxn {
	records := s.history.list(since, until)
	txns := make([]*RecordedTxn, len(records))
	for i, r := range records {
		txns[i] = r.txn
	}
	return txns
}

// RecordedTxn returns one record, nil if there is none (any more).
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

// The history holds, with each transaction, the nodes that it changed: old and
// new. The graph of a past moment is the present one with the changes since then
// taken back. Nothing is copied for that but the paths to the changed nodes.

// ErrNotRecorded: the history does not reach back that far.
var ErrNotRecorded = errors.New("not in the history (any more)")

// gone reports whether the changed node left the graph with its change.
func (c change) gone() bool {
	s := c.new.State()
	return c.new.want == nil && c.new.have == nil && (s == pb.ValueState_NONEXISTENT || s == pb.ValueState_REMOVED)
}

// at returns the graph as it was at the given time.
func (h *history) at(t time.Time) (*graph.Graph[*node], error) {
	if h.limits.Disabled {
		return nil, fmt.Errorf("%w: the history is disabled", ErrNotRecorded)
	}
	h.mu.Lock() // copying a graph changes it
	defer h.mu.Unlock()
	after := sort.Search(len(h.records), func(i int) bool { return h.records[i].txn.Stop.After(t) })
	if after < h.init && h.gap {
		// Only the first records lead there, forwards.
		if h.cut {
			return nil, fmt.Errorf("%w: %s", ErrNotRecorded, t.Format(time.RFC3339))
		}
		g := graph.New[*node]()
		for _, r := range h.records[:after] {
			r.redo(g)
		}
		return g, nil
	}
	if after == h.init && h.gap || after == 0 && h.cut {
		return nil, fmt.Errorf("%w: %s", ErrNotRecorded, t.Format(time.RFC3339))
	}
	if h.graph == nil {
		return graph.New[*node](), nil
	}
	g := h.graph.Copy()
	for i := len(h.records) - 1; i >= after; i-- {
		h.records[i].undo(g)
	}
	return g, nil
}

func (r *entry) undo(g *graph.Graph[*node]) {
	for i := len(r.changes) - 1; i >= 0; i-- {
		if c := r.changes[i]; c.old == nil {
			g.Delete(c.new.key)
		} else {
			g.Set(c.old)
		}
	}
}

func (r *entry) redo(g *graph.Graph[*node]) {
	for _, c := range r.changes {
		if c.gone() {
			g.Delete(c.new.key)
		} else {
			g.Set(c.new)
		}
	}
}

// Timeline returns what the history knows of a key, oldest first.
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
		if !last.gone() {
			rev.Value = last.new.snapshot()
		}
		if n := len(revisions); n > 0 {
			revisions[n-1].Until = rev.Since
		}
		revisions = append(revisions, rev)
	}
	return revisions
}

// Committed is a recorded transaction with what it left behind. It never changes, and may be
// read later and elsewhere.
type Committed struct {
	Txn *RecordedTxn
	// After are all values as the transaction left them.
	After   Snapshot
	changes []change
}

// Changes returns the values that the transaction changed, each once, in no particular order.
func (c Committed) Changes() []record.Change {
	last := make(map[string]int, len(c.changes))
	var list []record.Change
	for _, ch := range c.changes {
		now := record.Change{Key: ch.new.key, Silent: ch.silent()}
		if !ch.gone() {
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
