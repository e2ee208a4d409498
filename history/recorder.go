package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/history/journal"
	"github.com/contiv/contiv/jsontext"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/record"
	"google.golang.org/protobuf/proto"
)

const (
	queueLength = 4096
	// patience is how long a disk that failed is left alone.
	patience = 5 * time.Second
	// checkpointBatch values are written at once.
	checkpointBatch = 100
	// gathering is how long nothing must have come before the writer writes, so that it does not compete with what events
	// are about: a CNI ADD is answered before, and so is each of a burst. longestGathering bounds it: an agent that is
	// killed loses at most this much.
	gathering        = 50 * time.Millisecond
	longestGathering = 10 * gathering
	// gathered items are written at once at most.
	gathered = 256
)

// Kinds of lines.
const (
	runLine        = 'R'
	headLine       = 'H'
	checkpointLine = 'K'
	valueLine      = 'C'
	eventLine      = 'E'
	txnLine        = 'T'
	changeLine     = 'V'
	lossLine       = 'L'
	stopLine       = 'S'
)

// Run is the life of an agent.
type Run struct {
	Run     int
	Node    string
	Version string
	Start   time.Time
	// End is when the last thing was recorded; zero for the run that goes on.
	End time.Time `json:",omitzero"`
	// Ended in an orderly way, not by a crash.
	Ended bool `json:",omitempty"`
	// Lost is how many records were not written.
	Lost int `json:",omitempty"`
}

type checkpoint struct{ Values int }

type change struct {
	Txn uint64
	record.Change
}

// appendJSON appends what encoding/json makes of the change.
func (c change) appendJSON(b []byte) []byte {
	b = strconv.AppendUint(append(b, `{"Txn":`...), c.Txn, 10)
	b = jsontext.AppendString(append(b, `,"Key":`...), c.Key)
	if c.Value != nil {
		b = c.Value.AppendJSON(append(b, `,"Value":`...))
	}
	if c.Silent {
		b = append(b, `,"Silent":true`...)
	}
	return append(b, '}')
}

type loss struct {
	Lost  int
	Since time.Time
	Why   string
}

// Options of a Recorder.
type Options struct {
	// Dir holds the journal; it is made.
	Dir string
	// Bytes bounds the journal, Age how long it reaches back.
	Bytes int64
	Age   time.Duration
	// Node and Version of the agent.
	Node, Version string
	Log           *slog.Logger
}

// Recorder writes what it is told; Close it. A nil Recorder keeps nothing.
type Recorder struct {
	o     Options
	run   Run
	queue chan item
	lost  atomic.Int64 // because the queue was full
	done  chan struct{}
	// ending: Close waits, and so may the start of the next agent.
	ending chan struct{}

	mu        sync.Mutex
	trouble   error // of the last write
	begun     bool  // the run's line is written
	missing   int   // records that are lost, and that the journal does not count yet
	closed    bool
	impatient bool // a disk that failed is tried at once

	// The goroutine write owns these:
	journal *journal.Journal
	encoder encoder
	values  *kvscheduler.Committed // the last known transaction; nil: none yet
	missed  *loss                  // what could not be written; nil: nothing
	stale   bool                   // transactions after values are unknown
	retryAt time.Time
}

// item is one of its fields; none: nothing follows.
type item struct {
	event   *controller.EventRecord
	txn     *kvscheduler.Committed
	flushed chan struct{}
}

func (i item) ends() bool { return i == item{} }

// Open begins a run. A journal that cannot be used is no error: the agent works without, and Problems tell.
func Open(o Options) *Recorder {
	r := &Recorder{o: o, queue: make(chan item, queueLength), done: make(chan struct{}), ending: make(chan struct{})}
	r.run = Run{Run: 1 + NewReader(os.DirFS(o.Dir)).lastRun(), Node: o.Node, Version: o.Version, Start: time.Now()}
	r.begin()
	go r.write()
	return r
}

// begin opens the journal and writes that the run begins.
func (r *Recorder) begin() {
	var err error
	if r.journal == nil {
		r.journal, err = journal.Open(journal.Options{Dir: r.o.Dir, Bytes: r.o.Bytes, Age: r.o.Age, Rest: r.rest})
	}
	if err == nil {
		err = r.journal.Append(line(runLine, r.run.Start, r.run))
	}
	r.mu.Lock()
	r.begun = err == nil
	r.mu.Unlock()
	r.note(err)
}

// Event records an event.
func (r *Recorder) Event(e *controller.EventRecord) {
	if r != nil {
		r.push(item{event: e})
	}
}

// Transaction records a transaction, with what it made of values.
func (r *Recorder) Transaction(c kvscheduler.Committed) {
	if r != nil {
		r.push(item{txn: &c})
	}
}

func (r *Recorder) push(i item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	select {
	case r.queue <- i:
	default:
		r.lost.Add(1)
	}
}

// Flush returns when everything that was recorded before is written, or lost.
func (r *Recorder) Flush(ctx context.Context) error {
	flushed := make(chan struct{})
	select {
	case r.queue <- item{flushed: flushed}:
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-flushed:
	case <-r.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// Close ends the run after what was recorded is written.
func (r *Recorder) Close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	first := !r.closed
	r.closed = true
	r.mu.Unlock()
	if first {
		close(r.ending)
		r.queue <- item{}
	}
	<-r.done
}

// Problems says why nothing is recorded.
func (r *Recorder) Problems(context.Context) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.trouble == nil {
		return nil
	}
	return []string{fmt.Sprintf("history is not kept across restarts: %v", r.trouble)}
}

// complete adds what the journal lacks about this run to those that it has: the run itself, until its line is written, and
// how many records were lost since the last one that is.
func (r *Recorder) complete(runs []Run) []Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.begun {
		runs = append(slices.Clone(runs), r.run)
	}
	if r.missing > 0 && len(runs) > 0 {
		runs = slices.Clone(runs)
		runs[len(runs)-1].Lost += r.missing
	}
	return runs
}

// note remembers how the last write ended, and logs when that changes.
func (r *Recorder) note(err error) {
	r.mu.Lock()
	before := r.trouble
	r.trouble = err
	r.mu.Unlock()
	switch {
	case err != nil && before == nil:
		r.o.Log.Warn("History is not kept", "error", err)
	case err == nil && before != nil:
		r.o.Log.Info("History is kept again")
	}
}

// write is the goroutine that writes.
func (r *Recorder) write() {
	defer close(r.done)
	for {
		batch, then := r.gather()
		r.keep(batch)
		r.resume()
		switch {
		case then == nil:
		case then.flushed != nil:
			close(then.flushed)
		default:
			if r.ready() {
				_ = r.journal.Append(line(stopLine, time.Now(), struct{}{}))
			}
			if r.journal != nil {
				r.journal.Close()
			}
			return
		}
	}
}

// gather waits until a batch is to be written, or a journal that failed is to be tried again. It also returns the flush
// or the end that is asked for then, nil if none is.
func (r *Recorder) gather() (batch []item, then *item) {
	var quiet, enough, retry <-chan time.Time
	if r.missed != nil {
		retry = time.After(time.Until(r.retryAt))
	}
	for len(batch) < gathered {
		select {
		case i := <-r.queue:
			if i.flushed != nil || i.ends() {
				return batch, &i
			}
			batch = append(batch, i)
			quiet = time.After(gathering)
			if enough == nil {
				enough = time.After(longestGathering)
			}
		case <-quiet:
			return batch, nil
		case <-enough:
			return batch, nil
		case <-retry:
			return batch, nil
		}
	}
	return batch, nil
}

// keep writes events and transactions, or counts them as lost.
func (r *Recorder) keep(batch []item) {
	if n := int(r.lost.Swap(0)); n > 0 {
		r.miss(n, errors.New("more happened at once than could be written"))
		r.stale = true
	}
	for len(batch) > 0 {
		n := len(batch)
		if r.missed != nil || r.stale || !r.begun {
			n = 1 // the values that are written first are those after the first
		}
		r.append(batch[:n])
		batch = batch[n:]
	}
}

// append writes a batch, or counts it as lost.
func (r *Recorder) append(batch []item) {
	txn := false
	for _, i := range batch {
		if i.txn != nil {
			r.values, txn = i.txn, true
		}
	}
	if !r.ready() {
		r.miss(len(batch), nil)
		return
	}
	if r.missed != nil || r.stale && txn {
		if err := r.goOn(); err != nil {
			r.fail(len(batch), err)
			return
		}
		r.stale = r.stale && !txn
	}
	if err := r.journal.Append(r.encoder.lines(batch)...); err != nil {
		r.fail(len(batch), err)
		return
	}
	r.note(nil)
	if r.journal.Full() && !r.ends() { // else the next run begins a segment
		if err := r.nextSegment(); err != nil {
			r.fail(0, err)
		}
	}
}

// ready reports whether it is worth trying to write.
func (r *Recorder) ready() bool {
	r.mu.Lock()
	wait := !r.impatient
	r.mu.Unlock()
	if wait && time.Now().Before(r.retryAt) {
		return false
	}
	if !r.begun {
		if r.begin(); !r.begun {
			r.retryAt = time.Now().Add(patience)
		}
	}
	return r.begun
}

// miss counts records that are lost; a nil why is the one before.
func (r *Recorder) miss(n int, why error) {
	if r.missed == nil {
		r.missed = &loss{Since: time.Now()}
	}
	r.missed.Lost += n
	r.mu.Lock()
	r.missing = r.missed.Lost
	r.mu.Unlock()
	if why != nil {
		r.missed.Why = why.Error()
	}
}

func (r *Recorder) fail(n int, err error) {
	r.miss(n, err)
	r.retryAt = time.Now().Add(patience)
	r.note(err)
}

// goOn writes that records were lost, and which values there are.
func (r *Recorder) goOn() error {
	head := []journal.Line{line(headLine, r.valuesAt(), r.run)}
	if r.missed != nil {
		head = append(head, line(lossLine, r.valuesAt(), r.missed))
	}
	if err := r.journal.Append(head...); err != nil {
		return err
	}
	if err := r.checkpoint(); err != nil {
		return err
	}
	r.missed = nil
	r.mu.Lock()
	r.missing = 0
	r.mu.Unlock()
	return nil
}

// resume goes on with a journal that failed, although there is nothing new to write.
func (r *Recorder) resume() {
	if r.missed == nil || !r.ready() {
		return
	}
	if err := r.goOn(); err != nil {
		r.fail(0, err)
		return
	}
	r.note(nil)
}

// rest leaves the processor to others for as long as the writer had it, unless somebody waits for its end.
func (r *Recorder) rest(worked time.Duration) {
	select {
	case <-time.After(worked):
	case <-r.ending:
	}
}

func (r *Recorder) ends() bool {
	select {
	case <-r.ending:
		return true
	default:
		return false
	}
}

// nextSegment begins a segment, with all values.
func (r *Recorder) nextSegment() error {
	if err := r.journal.Next(); err != nil {
		return err
	}
	if err := r.journal.Append(line(headLine, r.valuesAt(), r.run)); err != nil {
		return err
	}
	if err := r.checkpoint(); err != nil {
		return err
	}
	r.journal.EndHead()
	return nil
}

// valuesAt is since when the values are as they are.
func (r *Recorder) valuesAt() time.Time {
	if r.values == nil {
		return r.run.Start
	}
	return r.values.Txn.Stop
}

// checkpoint writes all values.
func (r *Recorder) checkpoint() error {
	var all []journal.Line
	at := r.valuesAt()
	if r.values != nil {
		values, err := r.values.After()
		if err != nil {
			return err
		}
		values.Ascend("", func(v *record.Value) bool {
			all = append(all, journal.Line{Kind: valueLine, Time: at, Data: plain(v).AppendJSON(nil)})
			return true
		})
	}
	if err := r.journal.Append(line(checkpointLine, at, checkpoint{len(all)})); err != nil {
		return err
	}
	for batch := range slices.Chunk(all, checkpointBatch) {
		if err := r.journal.Append(batch...); err != nil {
			return err
		}
	}
	return nil
}

// plain is a value without what is of use in the process only.
func plain(v *record.Value) *record.Value {
	kept := *v
	kept.Metadata = nil
	return &kept
}

// encoder makes lines in memory that it uses again: what a pod's transaction takes is a good part of all that the
// agent allocates for it, and so of its garbage collections.
type encoder struct {
	list []journal.Line
	text []byte
}

// keptText bounds the memory that an encoder keeps for the next lines.
const keptText = 1 << 20

// lines returns the lines of a batch. They are valid until the next call.
func (e *encoder) lines(batch []item) []journal.Line {
	clear(e.list)
	e.list = e.list[:0]
	if cap(e.text) > keptText {
		e.text = nil
	}
	e.text = e.text[:0]
	for _, i := range batch {
		if i.event != nil {
			e.list = append(e.list, line(eventLine, i.event.ProcessingEnd, i.event))
		} else {
			e.transaction(i.txn)
		}
	}
	return e.list
}

func (e *encoder) transaction(c *kvscheduler.Committed) {
	t, encoded := *c.Txn, encoded{}
	t.Values, t.Executed, t.Planned = slices.Clone(t.Values), slices.Clone(t.Executed), slices.Clone(t.Planned)
	for i := range t.Values {
		t.Values[i].Value = encoded.once(t.Values[i].Value)
	}
	for _, ops := range [][]record.Op{t.Executed, t.Planned} {
		for i := range ops {
			ops[i].NewValue, ops[i].PrevValue = encoded.once(ops[i].NewValue), encoded.once(ops[i].PrevValue)
		}
	}
	e.add(txnLine, t.Stop, t.AppendJSON)
	for _, c := range c.Changes() {
		if c.Value != nil {
			c.Value = plain(c.Value)
			c.Value.Want, c.Value.Have = encoded.once(c.Value.Want), encoded.once(c.Value.Have)
		}
		e.add(changeLine, t.Stop, change{t.SeqNum, c}.appendJSON)
	}
}

func (e *encoder) add(kind byte, at time.Time, appendJSON func([]byte) []byte) {
	begin := len(e.text)
	e.text = appendJSON(e.text)
	e.list = append(e.list, journal.Line{Kind: kind, Time: at, Data: e.text[begin:]})
}

// encoded has the text of each message. A transaction holds the same message several times: as the requested value,
// as the value that an operation made, and as the value that exists.
type encoded map[proto.Message]*record.RawValue

// once returns the text in the place of the message.
func (e encoded) once(m proto.Message) proto.Message {
	if m == nil {
		return nil
	}
	raw := e[m]
	if raw == nil {
		raw = record.Text(m)
		e[m] = raw
	}
	return raw
}

func line(kind byte, at time.Time, v any) journal.Line {
	data, err := json.Marshal(v)
	if err != nil { // of a value that JSON cannot express
		data, _ = json.Marshal(map[string]string{"Error": err.Error()})
	}
	return journal.Line{Kind: kind, Time: at, Data: data}
}
