package controller

import (
	"testing"
	"time"
)

func TestHistoryIsLimited(t *testing.T) {
	start := time.Now()
	for name, initial := range map[string]int{"few at the beginning": 10, "all at the beginning": 3 * maxRecords} {
		h := newHistory(DefaultConfig(), start, nil)
		const events = 3 * maxRecords
		most := 0
		for seq := range uint64(events) {
			at := start
			if int(seq) >= initial {
				at = start.Add(2 * time.Hour)
			}
			h.add(&EventRecord{SeqNum: seq, ProcessingStart: at, ProcessingEnd: at})
			most = max(most, len(h.records))
		}
		if most > maxRecords || len(h.records) < maxRecords*8/10 {
			t.Errorf("%s: %d records at most, %d now", name, most, len(h.records))
		}
		for _, seq := range []uint64{0, 9, events - 1} {
			if h.bySeqNum(seq) == nil {
				t.Errorf("%s: #%d is forgotten", name, seq)
			}
		}
	}
}
