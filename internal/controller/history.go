package controller

import (
	"slices"
	"sort"
	"sync"
	"time"
)

// maxRecords limits the history: an agent records every pod change of the cluster. 100,000 records
// take about 60 MB.
const maxRecords = 100_000

// history holds the immutable records of processed events, ordered by sequence number.
type history struct {
	disabled bool
	// initEnd ends the initial period, whose records do not expire.
	initEnd  time.Time
	ageLimit time.Duration
	recorder func(*EventRecord) // may be nil

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
		h.shorten(maxRecords * 9 / 10) // in bulk, since each deletion moves all records
	}
	if h.recorder != nil {
		h.recorder(r)
	}
}

// trim deletes expired records.
func (h *history) trim(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.records = slices.DeleteFunc(h.records, func(r *EventRecord) bool {
		return r.ProcessingStart.After(h.initEnd) && now.Sub(r.ProcessingEnd) > h.ageLimit
	})
}

// shorten keeps n records. It keeps those from the initial period first, up to n/2.
func (h *history) shorten(n int) {
	initial := sort.Search(len(h.records), func(i int) bool { return h.records[i].ProcessingStart.After(h.initEnd) })
	initial = min(initial, n/2)
	h.records = slices.Delete(h.records, initial, initial+len(h.records)-n)
}

// bySeqNum returns a record, or nil.
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

// window returns the records of events whose processing overlaps the time range. Zero times are
// open ends.
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

func (h *history) first(n int) []*EventRecord {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return slices.Clone(h.records[:clamp(n, len(h.records))])
}

func (h *history) last(n int) []*EventRecord {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return slices.Clone(h.records[len(h.records)-clamp(n, len(h.records)):])
}

func clamp(n, limit int) int { return max(0, min(n, limit)) }
