package kvscheduler

import (
	"sort"
	"sync"
	"time"

	"github.com/contiv/contiv/kvscheduler/graph"
	"google.golang.org/protobuf/proto"
)

// history is the bounded list of past transactions, with what each changed in
// the graph. Writers are the worker, readers anybody.
type history struct {
	limits HistoryLimits
	start  time.Time

	mu      sync.RWMutex
	records []*record // oldest first
	bytes   int
	init    int                 // how many of the first records are protected by InitPeriod
	gap     bool                // records after those were dropped
	cut     bool                // records before all others were dropped
	graph   *graph.Graph[*node] // after the last record
}

// record is a transaction with its changes of the graph.
type record struct {
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
	r := &record{txn: t, changes: changes}
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
func (r *record) size() int {
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
func (h *history) list(since, until time.Time) []*record {
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
	return append([]*record(nil), h.records[from:to]...)
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
