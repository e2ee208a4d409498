package controller

import (
	"slices"
	"sort"
	"sync"
	"time"
)

// maxRecords is how many records there are at most: an agent is told of every change of a pod in the cluster.
// 100 000 take about 60 MB.
const maxRecords = 100_000

// history holds the records of processed events, ordered by sequence number. Records
// are immutable.
type history struct {
	disabled bool
	// initEnd is the end of the period whose records stay, whatever their age.
	initEnd  time.Time
	ageLimit time.Duration
	recorder func(*EventRecord) // nil: none

	mu      sync.RWMutex
	records []*EventRecord
}

func newHistory(c Config, start time.Time, recorder func(*EventRecord)) *history {
	return &history{
		disabled: !c.RecordEventHistory,
		initEnd:  start.Add(time.Duration(c.PermanentlyRecordedInitPeriod) * time.Minute),
		ageLimit: time.Duration(c.EventHistoryAgeLimit) * time.Minute,
		recorder: recorder,
	}
}

func (h *history) add(r *EventRecord) {
	if h.disabled {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.records = append(h.records, r)
	if len(h.records) > maxRecords {
		h.shorten(maxRecords * 9 / 10) // not one by one: each time, all of them move
	}
	if h.recorder != nil {
		h.recorder(r)
	}
}

// trim forgets records that are too old.
func (h *history) trim(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.records = slices.DeleteFunc(h.records, func(r *EventRecord) bool {
		return r.ProcessingStart.After(h.initEnd) && now.Sub(r.ProcessingEnd) > h.ageLimit
	})
}

// shorten forgets the oldest records but n. Those of the initial period stay, unless they are most of these.
func (h *history) shorten(n int) {
	initial := sort.Search(len(h.records), func(i int) bool { return h.records[i].ProcessingStart.After(h.initEnd) })
	initial = min(initial, n/2)
	h.records = slices.Delete(h.records, initial, initial+len(h.records)-n)
}

// bySeqNum returns one record, nil if there is none.
func (h *history) bySeqNum(seq uint64) *EventRecord {
	h.mu.RLock()
	defer h.mu.RUnlock()
	i := h.search(seq)
	if i < len(h.records) && h.records[i].SeqNum == seq {
		return h.records[i]
	}
	return nil
}

// interval returns the records from one sequence number to another, inclusive.
func (h *history) interval(from, to uint64) []*EventRecord {
	h.mu.RLock()
	defer h.mu.RUnlock()
	i := h.search(from)
	j := i
	for j < len(h.records) && h.records[j].SeqNum <= to {
		j++
	}
	return slices.Clone(h.records[i:j])
}

func (h *history) search(seq uint64) int {
	return sort.Search(len(h.records), func(i int) bool { return h.records[i].SeqNum >= seq })
}

// window returns the records of events that were processed, at least in part,
// between two times; zero times are open ends.
func (h *history) window(since, until time.Time) []*EventRecord {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var result []*EventRecord
	for _, r := range h.records {
		if (since.IsZero() || !r.ProcessingEnd.Before(since)) && (until.IsZero() || !r.ProcessingStart.After(until)) {
			result = append(result, r)
		}
	}
	return result
}

// first returns the oldest n records.
func (h *history) first(n int) []*EventRecord {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return slices.Clone(h.records[:clamp(n, len(h.records))])
}

// last returns the latest n records.
func (h *history) last(n int) []*EventRecord {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return slices.Clone(h.records[len(h.records)-clamp(n, len(h.records)):])
}

func clamp(n, limit int) int { return max(0, min(n, limit)) }
