package history

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/agent/history/journal"
	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/contiv/contiv/kvscheduler/record"
)

// Paths of the REST API.
const (
	URL         = "/history/"
	RunsURL     = URL + "runs"
	EventsURL   = URL + "events"
	EventURL    = URL + "event"
	TxnsURL     = URL + "transactions"
	TxnURL      = URL + "transaction"
	TimelineURL = URL + "timeline"
	// TimelinesURL serves several keys.
	TimelinesURL = URL + "timelines"
	KeysURL      = URL + "keys"
	DiffURL      = URL + "diff"
	ValuesURL    = URL + "values"
	FilesURL     = URL + "files"
)

// Responses of EventsURL, TxnsURL, TimelineURL and TimelinesURL. Runs includes the runs of all
// returned records.
type (
	Events struct {
		Runs   []Run
		Events []Event
	}
	Txns struct {
		Runs []Run
		Txns []Txn
	}
	Timeline struct {
		Runs      []Run
		Revisions []Revision
	}
	Timelines struct {
		Runs  []Run
		ByKey map[string][]Revision
	}
)

// Handler serves the REST API of a history:
//
//	GET /history/runs          []Run, oldest first
//	GET /history/events        Events        since= until= last=
//	GET /history/event         Event         run= seq-num=
//	GET /history/transactions  Txns          since= until= last= outline
//	GET /history/transaction   Txn           run= seq-num=
//	GET /history/timeline      Timeline      key= since=
//	GET /history/timelines     Timelines     key= (repeatable) since=
//	GET /history/keys          []string: keys of values that changed   since=
//	GET /history/diff          []record.Diff   from= to=
//	GET /history/values        []record.Value, sorted by key   time=
//	GET /history/files         the journal, as a tar archive
//
// Times are RFC 3339. Run 0 is the last one. Lost of the current run includes records that could
// not be written yet.
func (r *Recorder) Handler() http.Handler {
	reader := NewReader(os.DirFS(r.o.Dir))
	return handler(reader, r.Flush, func() ([]Run, error) {
		runs, err := reader.Runs()
		return r.complete(runs), err
	})
}

// Handler serves the REST API of a journal without a Recorder.
func (r Reader) Handler() http.Handler {
	return handler(r, func(context.Context) error { return nil }, r.Runs)
}

func handler(reader Reader, flush func(context.Context) error, listRuns func() ([]Run, error)) http.Handler {
	mux := http.NewServeMux()
	serve := func(path string, answer func(args *arguments) (any, error)) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, q *http.Request) {
			if err := flush(q.Context()); err != nil {
				rest.Error(w, http.StatusServiceUnavailable, err)
				return
			}
			args := &arguments{values: q.URL.Query()}
			value, err := answer(args)
			switch {
			case args.err != nil:
				rest.Error(w, http.StatusBadRequest, args.err)
			case errors.Is(err, ErrNotRecorded):
				rest.Error(w, http.StatusNotFound, err)
			case err != nil:
				rest.Error(w, http.StatusInternalServerError, err)
			default:
				rest.JSON(w, value)
			}
		})
	}
	serve(RunsURL, func(*arguments) (any, error) { return listRuns() })
	serve(EventsURL, func(args *arguments) (any, error) {
		events, err := reader.Events(args.span())
		runs, runsErr := listRuns()
		return Events{runs, events}, errors.Join(err, runsErr)
	})
	serve(TxnsURL, func(args *arguments) (any, error) {
		read := reader.Txns
		if args.values.Has("outline") {
			read = reader.Outlines
		}
		txns, err := read(args.span())
		runs, runsErr := listRuns()
		return Txns{runs, txns}, errors.Join(err, runsErr)
	})
	serve(TimelineURL, func(args *arguments) (any, error) {
		revisions, err := reader.Timeline(args.values.Get("key"), args.time("since"))
		runs, runsErr := listRuns()
		return Timeline{runs, revisions}, errors.Join(err, runsErr)
	})
	serve(TimelinesURL, func(args *arguments) (any, error) {
		byKey, err := reader.Timelines(args.values["key"], args.time("since"))
		runs, runsErr := listRuns()
		return Timelines{runs, byKey}, errors.Join(err, runsErr)
	})
	serve(EventURL, func(args *arguments) (any, error) {
		return reader.Event(int(args.number("run")), args.number("seq-num"))
	})
	serve(TxnURL, func(args *arguments) (any, error) { return reader.Txn(int(args.number("run")), args.number("seq-num")) })
	serve(KeysURL, func(args *arguments) (any, error) { return reader.Keys(args.time("since")) })
	serve(DiffURL, func(args *arguments) (any, error) {
		to := args.time("to")
		if to.IsZero() {
			to = time.Now()
		}
		return reader.Diff(args.time("from"), to)
	})
	serve(ValuesURL, func(args *arguments) (any, error) {
		values, _, err := reader.ValuesAt(args.time("time"))
		list := []*record.Value{}
		keys := slices.Sorted(maps.Keys(values))
		for _, key := range keys {
			values[key].Matching = matching(values[key].Needs, keys)
			list = append(list, values[key])
		}
		return list, err
	})
	mux.HandleFunc("GET "+FilesURL, func(w http.ResponseWriter, q *http.Request) {
		if err := flush(q.Context()); err != nil {
			rest.Error(w, http.StatusServiceUnavailable, err)
			return
		}
		w.Header().Set("Content-Type", "application/x-tar")
		_ = reader.Archive(w)
	})
	return mux
}

// matching returns, for each need, up to 16 of the sorted keys that satisfy it.
func matching(needs []record.Need, keys []string) (found []record.Need) {
	for _, need := range needs {
		prefixes, several := strings.CutPrefix(need.Target, record.AnyOf)
		if !several {
			continue
		}
		left := 16
		for _, prefix := range strings.Fields(prefixes) {
			prefix = strings.TrimSuffix(prefix, "*")
			i, _ := slices.BinarySearch(keys, prefix)
			for ; i < len(keys) && left > 0 && strings.HasPrefix(keys[i], prefix); i++ {
				found = append(found, record.Need{Label: need.Label, Target: keys[i]})
				left--
			}
		}
	}
	return found
}

// Archive writes the journal as a tar archive.
func (r Reader) Archive(w io.Writer) error {
	names, err := journal.Files(r.fsys)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	archive := tar.NewWriter(w)
	for _, name := range names {
		if err := r.archive(archive, name); err != nil {
			return err
		}
	}
	return archive.Close()
}

func (r Reader) archive(archive *tar.Writer, name string) error {
	file, err := r.fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // compressed or deleted meanwhile
	}
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.CopyBuffer(archive, io.LimitReader(file, info.Size()), make([]byte, 128<<10)) // it may grow
	return err
}

// arguments parses a query. err is the first error.
type arguments struct {
	values url.Values
	err    error
}

func (a *arguments) span() Span {
	return Span{Since: a.time("since"), Until: a.time("until"), Last: int(min(a.number("last"), maxRecords))}
}

// time returns the zero time if the argument is absent.
func (a *arguments) time(name string) time.Time {
	text := a.values.Get(name)
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil && a.err == nil {
		a.err = fmt.Errorf("argument %s=%q is not an RFC 3339 time", name, text)
	}
	return t
}

func (a *arguments) number(name string) uint64 {
	text := a.values.Get(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil && a.err == nil {
		a.err = fmt.Errorf("argument %s=%q must be a non-negative integer", name, text)
	}
	return n
}
