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

	"github.com/contiv/contiv/internal/agent/history/journal"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/lib/jsontext"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/record"
	"google.golang.org/protobuf/proto"
)

const (
	queueLength = 4096
	// retryDelay is the delay after a disk failure.
	retryDelay = 5 * time.Second
	// checkpointBatch is the number of values written at once.
	checkpointBatch = 100
	// quietPeriod without new records starts a write, so that the writer does not compete with a
	// CNI ADD or a burst of them. longestGathering bounds the delay, and hence the loss when the
	// agent is killed.
	quietPeriod      = 50 * time.Millisecond
	longestGathering = 10 * quietPeriod
	// maxBatch bounds the number of items written at once.
	maxBatch = 256
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

// Run is the lifetime of an agent process.
type Run struct {
	Run     int
	Node    string
	Version string
	Start   time.Time
	// End is the time of the last record; zero for the current run.
	End time.Time `json:",omitzero"`
	// Ended reports an orderly end, as opposed to a crash.
	Ended bool `json:",omitempty"`
	// Lost is the number of records that were not written.
	Lost int `json:",omitempty"`
}

type checkpoint struct{ Values int }

type change struct {
	Txn uint64
	record.Change
}

// appendJSON appends the same text as encoding/json.
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
	// Dir holds the journal. It is created if missing.
	Dir string
	// Bytes and Age bound the size and the age of the journal.
	Bytes int64
	Age   time.Duration
	// Node and Version of the agent.
	Node, Version string
	Log           *slog.Logger
}

// Recorder writes the history. A nil Recorder records nothing.
type Recorder struct {
	o     Options
	run   Run
	queue chan item
	lost  atomic.Int64 // dropped because the queue was full
	done  chan struct{}
	// ending is closed when Close starts waiting.
	ending chan struct{}

	mu       sync.Mutex
	trouble  error // error of the last write
	begun    bool  // the run's line is written
	missing  int   // lost records that the journal does not count yet
	closed   bool
	retryNow bool // retry a failed disk at once

	// The fields below belong to the goroutine of write.
	journal   *journal.Journal
	encoder   encoder
	values    *kvscheduler.Committed // the last known transaction, nil before the first
	unwritten *loss                  // records that could not be written, nil if none
	stale     bool                   // later transactions were lost
	retryAt   time.Time
}

// item has one field set, or none at the end of the queue.
type item struct {
	event   *controller.EventRecord
	txn     *kvscheduler.Committed
	flushed chan struct{}
}

func (i item) ends() bool { return i == item{} }

// Open begins a run. If the journal cannot be used, the agent continues without it, and Problems
// reports the error.
func Open(o Options) *Recorder {
	r := &Recorder{o: o, queue: make(chan item, queueLength), done: make(chan struct{}), ending: make(chan struct{})}
	r.run = Run{Run: 1 + NewReader(os.DirFS(o.Dir)).lastRun(), Node: o.Node, Version: o.Version, Start: time.Now()}
	r.begin()
	go r.write()
	return r
}

// begin opens the journal and writes the start of the run.
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

func (r *Recorder) Event(e *controller.EventRecord) {
	if r != nil {
		r.push(item{event: e})
	}
}

// Transaction records a transaction and its changes of values.
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

// Flush waits until all earlier records are written or lost.
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

// Close writes all records and ends the run.
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

// Problems reports why nothing is recorded.
func (r *Recorder) Problems(context.Context) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.trouble == nil {
		return nil
	}
	return []string{fmt.Sprintf("history is not recorded: %v", r.trouble)}
}

// complete adds information about this run that is not in the journal yet: the run itself, and the
// number of recently lost records.
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

// note stores the result of the last write and logs changes.
func (r *Recorder) note(err error) {
	r.mu.Lock()
	before := r.trouble
	r.trouble = err
	r.mu.Unlock()
	switch {
	case err != nil && before == nil:
		r.o.Log.Warn("Recording history failed", "error", err)
	case err == nil && before != nil:
		r.o.Log.Info("Recording history again")
	}
}

// write is the writing goroutine.
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

// gather waits until a batch is ready or a failed journal should be tried again. It also returns a
// requested flush or end, nil if none.
func (r *Recorder) gather() (batch []item, then *item) {
	var quiet, enough, retry <-chan time.Time
	if r.unwritten != nil {
		retry = time.After(time.Until(r.retryAt))
	}
	for len(batch) < maxBatch {
		select {
		case i := <-r.queue:
			if i.flushed != nil || i.ends() {
				return batch, &i
			}
			batch = append(batch, i)
			quiet = time.After(quietPeriod)
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

// keep writes events and transactions or counts them as lost.
func (r *Recorder) keep(batch []item) {
	if n := int(r.lost.Swap(0)); n > 0 {
		r.miss(n, errors.New("the queue was full"))
		r.stale = true
	}
	for len(batch) > 0 {
		n := len(batch)
		if r.unwritten != nil || r.stale || !r.begun {
			n = 1 // the values include those after the first transaction
		}
		r.append(batch[:n])
		batch = batch[n:]
	}
}

// append writes a batch or counts it as lost.
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
	if r.unwritten != nil || r.stale && txn {
		if err := r.writeGap(); err != nil {
			r.fail(len(batch), err)
			return
		}
		r.stale = r.stale && !txn
	}
	if err := r.encoder.write(batch, r.journal.Append); err != nil {
		r.fail(len(batch), err)
		return
	}
	r.note(nil)
	if r.journal.Full() && !r.ends() { // otherwise the next run starts a segment
		if err := r.nextSegment(); err != nil {
			r.fail(0, err)
		}
	}
}

// ready reports whether a write should be attempted.
func (r *Recorder) ready() bool {
	r.mu.Lock()
	wait := !r.retryNow
	r.mu.Unlock()
	if wait && time.Now().Before(r.retryAt) {
		return false
	}
	if !r.begun {
		if r.begin(); !r.begun {
			r.retryAt = time.Now().Add(retryDelay)
		}
	}
	return r.begun
}

// miss counts lost records. If why is nil, the previous reason stays.
func (r *Recorder) miss(n int, why error) {
	if r.unwritten == nil {
		r.unwritten = &loss{Since: time.Now()}
	}
	r.unwritten.Lost += n
	r.mu.Lock()
	r.missing = r.unwritten.Lost
	r.mu.Unlock()
	if why != nil {
		r.unwritten.Why = why.Error()
	}
}

func (r *Recorder) fail(n int, err error) {
	r.miss(n, err)
	r.retryAt = time.Now().Add(retryDelay)
	r.note(err)
}

// writeGap writes the number of lost records and all values.
func (r *Recorder) writeGap() error {
	head := []journal.Line{line(headLine, r.valuesAt(), r.run)}
	if r.unwritten != nil {
		head = append(head, line(lossLine, r.valuesAt(), r.unwritten))
	}
	if err := r.journal.Append(head...); err != nil {
		return err
	}
	if err := r.checkpoint(); err != nil {
		return err
	}
	r.unwritten = nil
	r.mu.Lock()
	r.missing = 0
	r.mu.Unlock()
	return nil
}

// resume continues a failed journal when no new record arrives.
func (r *Recorder) resume() {
	if r.unwritten == nil || !r.ready() {
		return
	}
	if err := r.writeGap(); err != nil {
		r.fail(0, err)
		return
	}
	r.note(nil)
}

// rest pauses for the time that the writer worked, so that other goroutines get the processor. It
// returns early if Close waits.
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

// nextSegment starts a segment with all values.
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

// valuesAt returns the time of the last change of a value.
func (r *Recorder) valuesAt() time.Time {
	if r.values == nil {
		return r.run.Start
	}
	return r.values.Txn.Stop
}

// checkpoint writes all values.
func (r *Recorder) checkpoint() error {
	at := r.valuesAt()
	var all []*record.Value
	if r.values != nil {
		values, err := r.values.After()
		if err != nil {
			return err
		}
		values.Ascend("", func(v *record.Value) bool {
			all = append(all, v)
			return true
		})
	}
	if err := r.journal.Append(line(checkpointLine, at, checkpoint{len(all)})); err != nil {
		return err
	}
	for batch := range slices.Chunk(all, checkpointBatch) {
		lines := make([]journal.Line, len(batch))
		for i, v := range batch {
			lines[i] = journal.Line{Kind: valueLine, Time: at, Data: plain(v).AppendJSON(nil)}
		}
		if err := r.journal.Append(lines...); err != nil {
			return err
		}
	}
	return nil
}

// plain returns a value without its process-local metadata.
func plain(v *record.Value) *record.Value {
	kept := *v
	kept.Metadata = nil
	return &kept
}

// encoder encodes lines into reused memory. Encoding a pod's transaction is a large part of the
// allocations for a pod.
type encoder struct {
	append func(...journal.Line) error
	err    error
	list   []journal.Line
	text   []byte
}

// pieceSize is the number of bytes after which an encoder appends its lines, so that a transaction
// of the whole node is not in memory as text. It also bounds the memory that an encoder keeps.
const pieceSize = 1 << 20

// write appends the lines of a batch in one or more pieces. After an error, earlier pieces are
// appended.
func (e *encoder) write(batch []item, append func(...journal.Line) error) error {
	e.append, e.err = append, nil
	for _, i := range batch {
		if i.event != nil {
			e.add(line(eventLine, i.event.ProcessingEnd, i.event))
		} else {
			e.transaction(i.txn)
		}
	}
	e.flush()
	return e.err
}

func (e *encoder) add(l journal.Line) {
	e.list = append(e.list, l)
	if len(e.text) >= pieceSize {
		e.flush()
	}
}

func (e *encoder) flush() {
	if e.err == nil {
		e.err = e.append(e.list...)
	}
	clear(e.list)
	e.list = e.list[:0]
	if cap(e.text) > pieceSize {
		e.text = nil
	}
	e.text = e.text[:0]
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
	e.encode(txnLine, t.Stop, t.AppendJSON)
	for _, c := range c.Changes() {
		if c.Value != nil {
			c.Value = plain(c.Value)
			c.Value.Want, c.Value.Have = encoded.once(c.Value.Want), encoded.once(c.Value.Have)
		}
		e.encode(changeLine, t.Stop, change{t.SeqNum, c}.appendJSON)
	}
}

func (e *encoder) encode(kind byte, at time.Time, appendJSON func([]byte) []byte) {
	begin := len(e.text)
	e.text = appendJSON(e.text)
	e.add(journal.Line{Kind: kind, Time: at, Data: e.text[begin:]})
}

// encoded caches the text of each message. A transaction contains the same message several times:
// as requested, as set by an operation and as existing.
type encoded map[proto.Message]*record.RawValue

// once returns the cached text of the message.
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
	if err != nil { // a value that JSON cannot express
		data, _ = json.Marshal(map[string]string{"Error": err.Error()})
	}
	return journal.Line{Kind: kind, Time: at, Data: data}
}
