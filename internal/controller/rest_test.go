package controller_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/contiv/internal/controller"
	"github.com/google/go-cmp/cmp"
)

func (r *rig) get(url string) (status int, body []byte) {
	w := httptest.NewRecorder()
	r.Handler(nil).ServeHTTP(w, httptest.NewRequest("GET", url, nil))
	return w.Code, w.Body.Bytes()
}

func TestEventHistoryArguments(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		start := time.Now().Unix()
		r.started()
		for range 5 { // one event every ten seconds
			r.after(10 * time.Second)
			r.do(newEvent("x"))
		}
		at := func(seconds int64) int64 { return start + seconds }
		for _, test := range []struct {
			query string
			want  []uint64
		}{
			{"", []uint64{0, 1, 2, 3, 4, 5}},
			{fmt.Sprintf("?since=%d", at(40)), []uint64{4, 5}},
			{fmt.Sprintf("?until=%d", at(10)), []uint64{0, 1}},
			{fmt.Sprintf("?since=%d&until=%d", at(15), at(35)), []uint64{2, 3}},
			{"?from=2&to=3", []uint64{2, 3}},
			{"?from=4&to=99", []uint64{4, 5}},
			{"?from=2", []uint64{0, 1, 2, 3, 4, 5}},
			{"?first=2", []uint64{0, 1}},
			{"?last=2", []uint64{4, 5}},
			{"?last=100", []uint64{0, 1, 2, 3, 4, 5}},
			{"?first=0", []uint64{}},
			// precedence
			{fmt.Sprintf("?since=%d&from=0&to=1", at(50)), []uint64{5}},
			{"?from=0&to=1&first=4", []uint64{0, 1}},
			{"?first=1&last=2", []uint64{0}},
			{"?first=1&first=3", []uint64{0}},
		} {
			status, body := r.get("/controller/event-history" + test.query)
			var records []controller.EventRecord
			if err := json.Unmarshal(body, &records); err != nil || status != http.StatusOK {
				t.Errorf("%s: %d %s", test.query, status, body)
				continue
			}
			got := []uint64{}
			for _, record := range records {
				got = append(got, record.SeqNum)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s: %s", test.query, diff)
			}
		}
	})
}

func TestEventHistoryErrors(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		for query, want := range map[string]int{
			"?seq-num=0":  http.StatusOK,
			"?seq-num=7":  http.StatusNotFound,
			"?seq-num=x":  http.StatusBadRequest,
			"?since=now":  http.StatusBadRequest,
			"?from=0&to=": http.StatusBadRequest,
			"?last=-1":    http.StatusBadRequest,
		} {
			status, body := r.get("/controller/event-history" + query)
			var answer struct{ Error string }
			if err := json.Unmarshal(body, &answer); err != nil || status != want || (answer.Error != "") != (want != 200) {
				t.Errorf("%s: %d %s", query, status, body)
			}
		}
	})
}

func TestEventRecordSurvivesJSON(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		r.a.update = putting("k/1", iface("1"))
		r.b.update = failing(errors.New("broken"))
		r.do(newEvent("x"))
		_, body := r.get("/controller/event-history?seq-num=1")
		var got controller.EventRecord
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		want := controller.EventRecord{
			SeqNum: 1, Name: "x", Description: "x", Method: controller.Update,
			Handlers: []controller.HandlerRecord{
				{Handler: "a", Change: "put k/1"},
				{Handler: "b", ErrorStr: "broken"},
				{Handler: "c"},
			},
			Txn:      &controller.TxnRecord{SeqNum: 101, SouthboundTime: time.Millisecond},
			ErrorStr: "b: broken",
		}
		want.Enqueued, want.ProcessingStart, want.ProcessingEnd = got.Enqueued, got.ProcessingStart, got.ProcessingEnd
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if got.Enqueued.IsZero() || got.ProcessingStart.Before(got.Enqueued) || got.ProcessingEnd.Before(got.ProcessingStart) {
			t.Errorf("times: %v %v %v", got.Enqueued, got.ProcessingStart, got.ProcessingEnd)
		}
	})
}

func TestHistoryIsTrimmed(t *testing.T) {
	cfg := controller.DefaultConfig()
	cfg.EnablePeriodicHealing = false
	cfg.EventHistoryAgeLimit, cfg.PermanentlyRecordedInitPeriod = 30, 10
	inBubbleWith(t, cfg, nil, func(t *testing.T, r *rig) {
		r.started()
		r.after(9 * time.Minute)
		r.do(newEvent("initial"))
		r.after(9 * time.Minute)
		r.do(newEvent("old"))
		r.after(20 * time.Minute)
		r.do(newEvent("recent"))
		r.after(9 * time.Minute)
		r.wantHistory("Database Resync", "initial", "old", "recent")
		r.after(4 * time.Minute)
		r.wantHistory("Database Resync", "initial", "recent")
	})
}

func TestHistoryCanBeTurnedOff(t *testing.T) {
	cfg := controller.DefaultConfig()
	cfg.RecordEventHistory = false
	inBubbleWith(t, cfg, nil, func(t *testing.T, r *rig) {
		r.started()
		r.wantHistory()
	})
}

func TestResyncOnRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		synctest.Wait()
		for _, test := range []struct {
			err  error
			want int
		}{{nil, http.StatusOK}, {errors.New("too many"), http.StatusServiceUnavailable}} {
			w := httptest.NewRecorder()
			r.Handler(func() error { return test.err }).ServeHTTP(w, httptest.NewRequest("POST", "/controller/resync", nil))
			if w.Code != test.want || !json.Valid(w.Body.Bytes()) {
				t.Errorf("%v: %d %s", test.err, w.Code, w.Body)
			}
		}
	})
}
