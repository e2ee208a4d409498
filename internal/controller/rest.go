package controller

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/contiv/contiv/internal/lib/rest"
)

// Handler serves the REST API of the controller:
//
//	GET  /controller/event-history   []EventRecord, or one with seq-num
//	GET  /controller/contributions   Contributions of the key in the argument key; without it, []Contributions of all keys
//	POST /controller/resync          requests a resync with the database
//
// requestResync requests the resync; it must not wait for it.
func (c *Controller) Handler(requestResync func() error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /controller/event-history", c.serveHistory)
	mux.HandleFunc("GET /controller/contributions", c.serveContributions)
	mux.HandleFunc("POST /controller/resync", func(w http.ResponseWriter, _ *http.Request) {
		if err := requestResync(); err != nil {
			rest.Error(w, http.StatusServiceUnavailable, err)
			return
		}
		rest.JSON(w, "Resync request was successfully dispatched.")
	})
	return mux
}

// serveHistory selects records by the first arguments present of: seq-num; since, until; from with
// to; first; last.
func (c *Controller) serveHistory(w http.ResponseWriter, r *http.Request) {
	args := arguments{values: r.URL.Query()}
	var answer any
	switch {
	case args.has("seq-num"):
		record := c.history.bySeqNum(args.number("seq-num"))
		if record == nil && args.err == nil {
			rest.Error(w, http.StatusNotFound, fmt.Errorf("event #%s is not in the history", r.URL.Query().Get("seq-num")))
			return
		}
		answer = record
	case args.has("since") || args.has("until"):
		answer = notNil(c.History(args.time("since"), args.time("until")))
	case args.has("from") && args.has("to"):
		answer = notNil(c.history.interval(args.number("from"), args.number("to")))
	case args.has("first"):
		answer = notNil(c.history.first(args.count("first")))
	case args.has("last"):
		answer = notNil(c.history.last(args.count("last")))
	default:
		answer = notNil(c.History(time.Time{}, time.Time{}))
	}
	if args.err != nil {
		rest.Error(w, http.StatusBadRequest, args.err)
		return
	}
	rest.JSON(w, answer)
}

func notNil(records []*EventRecord) []*EventRecord {
	if records == nil {
		return []*EventRecord{}
	}
	return records
}

// arguments parses the numbers of a query. err is the first error. Only the first value of a
// repeated argument is used.
type arguments struct {
	values url.Values
	err    error
}

func (a *arguments) has(name string) bool { return a.values.Has(name) }

func (a *arguments) number(name string) uint64 {
	n, err := strconv.ParseUint(a.values.Get(name), 10, 64)
	if err != nil && a.err == nil {
		a.err = fmt.Errorf("argument %s=%q must be a whole number, not negative", name, a.values.Get(name))
	}
	return n
}

func (a *arguments) count(name string) int {
	return int(min(a.number(name), 1<<31))
}

// time returns the zero time if the argument is absent.
func (a *arguments) time(name string) time.Time {
	if !a.has(name) {
		return time.Time{}
	}
	return time.Unix(int64(min(a.number(name), 1<<40)), 0)
}

// History returns the records of the events whose processing overlaps the time range, oldest first.
// Zero times are open ends.
func (c *Controller) History(since, until time.Time) []*EventRecord {
	return c.history.window(since, until)
}
