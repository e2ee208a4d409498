package controller_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/kvscheduler"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fakeScheduler struct {
	txns   []controller.SchedulerTxn
	values map[string]proto.Message
	// fail returns the keys of a transaction that fail.
	fail func(controller.SchedulerTxn) []string
	// final: failures are permanent.
	final   bool
	stalled atomic.Bool
	ops     int
	rig     *rig
	// changed has a token for each change reported by AwaitChange; may be nil.
	changed chan struct{}
}

func (s *fakeScheduler) AwaitChange(ctx context.Context) error {
	select {
	case <-s.changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *fakeScheduler) Stalled(time.Duration) error {
	if s.stalled.Load() {
		return errors.New("stalled")
	}
	return nil
}

func (s *fakeScheduler) Commit(_ context.Context, txn controller.SchedulerTxn) (controller.TxnResult, error) {
	s.rig.order()
	seq := uint64(len(s.txns) + 100)
	s.txns = append(s.txns, txn)
	var failed []string
	if s.fail != nil {
		failed = s.fail(txn)
	}
	result := controller.TxnResult{SeqNum: seq, SouthboundTime: time.Millisecond, Operations: s.ops, FailedKeys: failed, Final: s.final}
	if len(failed) > 0 {
		err := &kvscheduler.TransactionError{SeqNum: seq, Reverted: txn.Revert}
		for _, key := range failed {
			err.Errors = append(err.Errors, &kvscheduler.KeyError{Key: key, Err: errors.New("no such device")})
		}
		return result, err
	}
	if txn.Resync == kvscheduler.FullResync || txn.Resync == kvscheduler.UpstreamResync || s.values == nil {
		s.values = make(map[string]proto.Message)
	}
	for _, kv := range txn.Values {
		if kv.Value == nil {
			delete(s.values, kv.Key)
		} else {
			s.values[kv.Key] = kv.Value
		}
	}
	return result, nil
}

func (s *fakeScheduler) lastTxn() controller.SchedulerTxn { return s.txns[len(s.txns)-1] }

// lastKeys returns the keys of the last transaction, deleted ones with the prefix "-".
func (s *fakeScheduler) lastKeys() (keys []string) {
	for _, kv := range s.lastTxn().Values {
		if kv.Value == nil {
			keys = append(keys, "-"+kv.Key)
		} else {
			keys = append(keys, kv.Key)
		}
	}
	return keys
}

// handler is an event handler made of functions, which may be nil.
type handler struct {
	name    string
	rig     *rig
	wants   func(controller.Event) bool
	resync  func(ctx context.Context, e controller.Event, state controller.KubeState, n int, txn controller.ResyncOperations) error
	update  func(ctx context.Context, e controller.Event, txn controller.UpdateOperations) (string, error)
	revert  func(ctx context.Context, e controller.Event) error
	endBulk func(ctx context.Context, txn controller.UpdateOperations) (string, error)
}

func (h *handler) EndBulk(ctx context.Context, txn controller.UpdateOperations) (string, error) {
	if h.endBulk == nil {
		return "", nil
	}
	return h.endBulk(ctx, txn)
}

func (h *handler) String() string { return h.name }
func (h *handler) HandlesEvent(e controller.Event) bool {
	h.rig.order()
	return h.wants == nil || h.wants(e)
}
func (h *handler) Resync(ctx context.Context, e controller.Event, state controller.KubeState, n int, txn controller.ResyncOperations) error {
	h.rig.calls = append(h.rig.calls, fmt.Sprintf("%s resync %s", h.name, e.Name()))
	if h.resync != nil {
		return h.resync(ctx, e, state, n, txn)
	}
	return nil
}
func (h *handler) Update(ctx context.Context, e controller.Event, txn controller.UpdateOperations) (string, error) {
	h.rig.calls = append(h.rig.calls, fmt.Sprintf("%s update %s", h.name, e.Name()))
	if h.update != nil {
		return h.update(ctx, e, txn)
	}
	return "", nil
}
func (h *handler) Revert(ctx context.Context, e controller.Event) error {
	h.rig.calls = append(h.rig.calls, fmt.Sprintf("%s revert %s", h.name, e.Name()))
	if h.revert != nil {
		return h.revert(ctx, e)
	}
	return nil
}

type event struct {
	controller.Blocking
	name      string
	txnType   controller.TransactionType
	direction controller.Direction
}

func newEvent(name string) *event { return &event{Blocking: controller.NewBlocking(), name: name} }

func (e *event) Name() string                                { return e.name }
func (e *event) String() string                              { return e.name }
func (e *event) Method() controller.EventMethod              { return controller.Update }
func (e *event) TransactionType() controller.TransactionType { return e.txnType }
func (e *event) Direction() controller.Direction             { return e.direction }

// note is an update event without a waiting sender.
type note struct {
	controller.NonBlocking
	name string
}

func (e *note) Name() string                              { return e.name }
func (*note) String() string                              { return "note" }
func (*note) Method() controller.EventMethod              { return controller.Update }
func (*note) TransactionType() controller.TransactionType { return controller.BestEffort }
func (*note) Direction() controller.Direction             { return controller.Forward }

// rig is a controller with handlers a, b, c and a fake scheduler, in a synctest bubble.
type rig struct {
	*controller.Controller
	t       *testing.T
	sched   *fakeScheduler
	a, b, c *handler
	calls   []string
	log     bytes.Buffer
	mu      sync.Mutex
}

// order makes the test's writes visible to the event loop.
func (r *rig) order() {
	r.mu.Lock()
	defer r.mu.Unlock()
}

// after advances the time and waits until all goroutines block.
func (r *rig) after(d time.Duration) {
	r.order()
	time.Sleep(d)
	synctest.Wait()
}

var silentLog = slog.New(slog.NewTextHandler(io.Discard, nil))

func inBubble(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	cfg := controller.DefaultConfig()
	cfg.EnablePeriodicHealing = false // tested separately
	inBubbleWith(t, cfg, nil, test)
}

func inBubbleWith(t *testing.T, cfg controller.Config, sources []controller.ExternalConfigSource, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t}
		r.sched = &fakeScheduler{rig: r}
		r.a, r.b, r.c = &handler{name: "a", rig: r}, &handler{name: "b", rig: r}, &handler{name: "c", rig: r}
		r.Controller = controller.New(controller.Options{
			Config: cfg, Scheduler: r.sched, Sources: sources, Log: slog.New(slog.NewTextHandler(&r.log, nil)),
		})
		r.Register(r.a, r.b, r.c)
		r.Start()
		defer r.Close(t.Context())
		test(t, r)
	})
}

func (r *rig) push(e controller.Event) {
	r.t.Helper()
	if err := r.PushEvent(r.t.Context(), e); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

// started runs the startup resync and clears its calls.
func (r *rig) started() {
	r.t.Helper()
	r.push(&controller.DBResync{})
	r.calls = nil
}

func (r *rig) do(e *event) error {
	r.t.Helper()
	r.push(e)
	return e.Wait(r.t.Context())
}

func (r *rig) wantCalls(want ...string) {
	r.t.Helper()
	if !slices.Equal(r.calls, want) {
		r.t.Errorf("calls:\n got %s\nwant %s", strings.Join(r.calls, "; "), strings.Join(want, "; "))
	}
}

func (r *rig) history() (names []string) {
	for _, record := range r.History(time.Time{}, time.Time{}) {
		names = append(names, record.Name)
	}
	return names
}

func (r *rig) wantHistory(want ...string) {
	r.t.Helper()
	if got := r.history(); !slices.Equal(got, want) {
		r.t.Errorf("events:\n got %q\nwant %q", got, want)
	}
}

func (r *rig) lastRecord() *controller.EventRecord {
	records := r.History(time.Time{}, time.Time{})
	return records[len(records)-1]
}

func iface(name string, addresses ...string) *vpp_interfaces.Interface {
	return &vpp_interfaces.Interface{Name: name, IpAddresses: addresses}
}

func putting(key string, value proto.Message) func(context.Context, controller.Event, controller.UpdateOperations) (string, error) {
	return func(_ context.Context, _ controller.Event, txn controller.UpdateOperations) (string, error) {
		txn.Put(key, value)
		return "put " + key, nil
	}
}

func failing(err error) func(context.Context, controller.Event, controller.UpdateOperations) (string, error) {
	return func(context.Context, controller.Event, controller.UpdateOperations) (string, error) { return "", err }
}

func failKey(key string) func(controller.SchedulerTxn) []string {
	return func(txn controller.SchedulerTxn) []string {
		for _, kv := range txn.Values {
			if kv.Key == key {
				return []string{key}
			}
		}
		return nil
	}
}
