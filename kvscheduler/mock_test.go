package kvscheduler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// text is the value type of the mock. "item1,item2" derives one value per item with the key <base>/<item>.
type text = *wrapperspb.StringValue

func val(s string) text { return wrapperspb.String(s) }

// southbound is a mock that records the existing values and the calls.
type southbound struct {
	t       testing.TB
	mu      sync.Mutex
	values  map[string]string // base and derived values by key
	foreign map[string]Origin
	calls   []string
	fail    map[string][]error // errors of the next calls, by "CREATE key" and so on
	metas   int
	hook    func(call string) // called within each call
}

// parts are the features of a mock descriptor.
type parts struct {
	prefix     string
	deps       map[string][]Dependency // by key
	depsOf     func(key, value string) []Dependency
	recreate   bool
	derive     bool
	invalid    string // value that fails Validate
	retrieve   bool
	keyed      bool
	after      []string
	noNB       bool
	sbOnly     bool
	equivalent func(key string, a, b text) bool
}

func newSouthbound(t testing.TB) *southbound {
	return &southbound{t: t, values: map[string]string{}, foreign: map[string]Origin{}, fail: map[string][]error{}}
}

func quietLog() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func newScheduler(t testing.TB, opts ...func(*Options)) *Scheduler {
	t.Helper()
	o := Options{Logger: quietLog(), CallTimeout: 5 * time.Second}
	for _, f := range opts {
		f(&o)
	}
	s := New(o)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func (sb *southbound) called(op, key string) error {
	call := op + " " + key
	sb.mu.Lock()
	sb.calls = append(sb.calls, call)
	hook := sb.hook
	var err error
	if errs := sb.fail[call]; len(errs) > 0 {
		err, sb.fail[call] = errs[0], errs[1:]
	}
	sb.mu.Unlock()
	if hook != nil {
		hook(call)
	}
	return err
}

// failNext makes the next call fail with err. Repeated calls queue further errors.
func (sb *southbound) failNext(call string, err error) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	sb.fail[call] = append(sb.fail[call], err)
}

// blockCall makes each of these calls send to started and then wait for release.
func (sb *southbound) blockCall(held string) (started <-chan struct{}, release chan<- struct{}) {
	begun, end := make(chan struct{}), make(chan struct{})
	sb.hook = func(call string) {
		if call == held {
			begun <- struct{}{}
			<-end
		}
	}
	return begun, end
}

func (sb *southbound) take() []string {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	calls := sb.calls
	sb.calls = nil
	return calls
}

func (sb *southbound) set(key, value string) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	sb.values[key] = value
}

func (sb *southbound) unset(key string) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	delete(sb.values, key)
}

func (sb *southbound) content() []string {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	var all []string
	for k, v := range sb.values {
		all = append(all, k+"="+v)
	}
	slices.Sort(all)
	return all
}

// descriptor returns a mock descriptor over the southbound.
func (sb *southbound) descriptor(name string, p parts) Descriptor[text, int] {
	d := Descriptor[text, int]{
		Name: name, Keys: KeySpace{Prefix: p.prefix}, NB: !p.noNB && !p.sbOnly, RetrieveAfter: p.after,
		Equivalent: p.equivalent,
	}
	isBase := func(key string) bool { return strings.Count(strings.TrimPrefix(key, p.prefix), "/") == 0 }
	if !p.sbOnly {
		d.Create = func(_ context.Context, key string, v text) (int, error) {
			if err := sb.called("CREATE", key); err != nil {
				return 0, err
			}
			sb.set(key, v.Value)
			sb.mu.Lock()
			defer sb.mu.Unlock()
			sb.metas++
			return sb.metas - 1, nil
		}
		d.Delete = func(_ context.Context, key string, _ text, _ int) error {
			if err := sb.called("DELETE", key); err != nil {
				return err
			}
			sb.unset(key)
			return nil
		}
		if !p.recreate {
			d.Update = func(_ context.Context, key string, _, v text, m int) (int, error) {
				if err := sb.called("UPDATE", key); err != nil {
					return m, err
				}
				sb.set(key, v.Value)
				return m, nil
			}
		}
	}
	d.Dependencies = func(key string, v text) []Dependency {
		if p.depsOf != nil {
			return p.depsOf(key, v.Value)
		}
		return p.deps[key]
	}
	if p.derive {
		d.DerivedValues = func(key string, v text) []KeyValue {
			if !isBase(key) {
				return nil
			}
			var kvs []KeyValue
			for _, item := range strings.Split(v.Value, ",") {
				if item != "" {
					kvs = append(kvs, KeyValue{Key: key + "/" + item, Value: val(item)})
				}
			}
			return kvs
		}
	}
	if p.invalid != "" {
		d.Validate = func(key string, v text) error {
			if v.Value == p.invalid {
				return NewInvalidValueError(fmt.Errorf("%q is not allowed", v.Value), "value")
			}
			return nil
		}
	}
	read := func(only map[string]bool) []Item[text, int] {
		sb.mu.Lock()
		defer sb.mu.Unlock()
		var items []Item[text, int]
		for key, v := range sb.values {
			if !strings.HasPrefix(key, p.prefix) || !isBase(key) || only != nil && !only[key] {
				continue
			}
			if p.derive {
				// A base value is read with its existing items.
				have := strings.Split(v, ",")
				for k := range sb.values {
					if item, ok := strings.CutPrefix(k, key+"/"); ok && !slices.Contains(have, item) {
						have = append(have, item)
					}
				}
				have = slices.DeleteFunc(have, func(item string) bool {
					_, exists := sb.values[key+"/"+item]
					return !exists
				})
				slices.Sort(have)
				v = strings.Join(have, ",")
			}
			items = append(items, Item[text, int]{Key: key, Value: val(v), Metadata: len(key), Origin: sb.foreign[key]})
		}
		return items
	}
	if p.retrieve {
		d.Retrieve = func(_ context.Context, expected []Item[text, int]) ([]Item[text, int], error) {
			if err := sb.called("RETRIEVE", name); err != nil {
				return nil, err
			}
			return read(nil), nil
		}
	}
	if p.keyed {
		d.RetrieveKeys = func(_ context.Context, expected []Item[text, int]) ([]Item[text, int], error) {
			only := map[string]bool{}
			var keys []string
			for _, it := range expected {
				only[it.Key] = true
				keys = append(keys, it.Key)
			}
			if err := sb.called("RETRIEVE", strings.Join(keys, " ")); err != nil {
				return nil, err
			}
			return read(only), nil
		}
	}
	return d
}

func (sb *southbound) register(s *Scheduler, name string, p parts) {
	sb.t.Helper()
	if err := Register(s, sb.descriptor(name, p)); err != nil {
		sb.t.Fatal(err)
	}
}

// commit puts "key=value" and deletes "key".
func commit(t testing.TB, s *Scheduler, values string, opts ...TxnOption) (*RecordedTxn, error) {
	t.Helper()
	txn := s.NewTransaction()
	for _, f := range strings.Fields(values) {
		key, v, ok := strings.Cut(f, "=")
		if ok {
			txn.Put(key, val(v))
		} else {
			txn.Delete(key)
		}
	}
	seq, err := txn.Commit(context.Background(), opts...)
	if seq == NoSeqNum {
		return nil, err
	}
	return s.RecordedTxn(seq), err
}

func mustCommit(t testing.TB, s *Scheduler, values string, opts ...TxnOption) *RecordedTxn {
	t.Helper()
	r, err := commit(t, s, values, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func opsOf(ops []RecordedOp) []string {
	var out []string
	for _, op := range ops {
		line := op.Operation.String() + " " + op.Key
		if flags := op.Flags(); len(flags) > 0 {
			line += " [" + strings.Join(flags, " ") + "]"
		}
		out = append(out, line)
	}
	return out
}

func wantOps(t testing.TB, r *RecordedTxn, want ...string) {
	t.Helper()
	wantList(t, "operations", opsOf(r.Executed), want)
}

func wantList(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s:\n  %s\nwant:\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func wantCalls(t testing.TB, sb *southbound, want ...string) {
	t.Helper()
	wantList(t, "southbound calls", sb.take(), want)
}

func wantState(t testing.TB, s *Scheduler, key string, state pb.ValueState, details ...string) {
	t.Helper()
	st := s.ValueStatus(key).Value
	if st.State != state || !slices.Equal(st.Details, details) {
		t.Fatalf("%s is %v %v (%s), want %v %v", key, st.State, st.Details, st.Error, state, details)
	}
}

// awaitTxn waits until the transaction is recorded.
func awaitTxn(t testing.TB, s *Scheduler, seq uint64) *RecordedTxn {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		if r := s.RecordedTxn(seq); r != nil {
			return r
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("transaction #%d was not recorded", seq)
	return nil
}

func settle(t testing.TB, s *Scheduler) {
	t.Helper()
	if err := s.Barrier(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func on(label, key string) Dependency { return Dependency{Label: label, Key: key} }

var errBoom = errors.New("boom")

var noTime time.Time

var _ proto.Message = text(nil)
