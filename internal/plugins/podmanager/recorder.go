package podmanager

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store"
)

// recorder is the local store. It writes the handlers' records of a new pod in one transaction
// while the pod is wired, because each write waits twice for the disk and delays kubelet.
//
//	AddPod ──> podmanager ──> ipam ──> Recorder ──> ipnet … kernel ──┐
//	            begin, Put     Put      commit                       ├──> ADD returns
//	                                      └──> queue ──write──> disk ┘
//
// Changes reach the disk in order. Changes that arrive while the disk is busy, or from concurrent
// ADDs (see gathering), are written together. If the agent ends before the write, the ADD was not
// answered: the next agent does not know the pod and removes its network.
//
// Between begin and commit, writes cannot be read back. Only the event loop uses them.
type recorder struct {
	store.Broker

	mu sync.Mutex
	// used is set if a Recorder commits.
	used    bool
	open    bool
	pending []store.Change

	queue   []write
	writing bool

	// expected is the number of ADDs in progress without a queued transaction.
	expected int
	// due receives a value when the writer must stop waiting.
	due chan struct{}
}

const (
	// gathering is how long a write waits for other ADDs. A few pods are wired in that time, which
	// is short for an ADD among so many.
	gathering = 20 * time.Millisecond
	// crowd is the number of ADDs from which a write waits.
	crowd = 4
)

// write is a queued transaction. done receives its error.
type write struct {
	ctx     context.Context
	changes []store.Change
	done    chan<- error
	// urgent is set if the event loop waits for it.
	urgent bool
}

// expect counts an ADD until queued is called: by the ADD when it has queued its transaction, or at
// its end.
func (r *recorder) expect() (queued func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expected++
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.expected--
		r.wake()
	})
}

// mayGather reports whether the writer may wait for more transactions.
func (r *recorder) mayGather(more int) bool {
	return r.expected >= more && !slices.ContainsFunc(r.queue, func(w write) bool { return w.urgent })
}

// wake stops the writer's wait if necessary. It keeps waiting for the last ADDs of a crowd, which
// would otherwise need another write. The caller holds the lock.
func (r *recorder) wake() {
	if r.mayGather(1) {
		return
	}
	select {
	case r.due <- struct{}{}:
	default:
	}
}

// gather waits until the queue is to be written.
func (r *recorder) gather() {
	r.mu.Lock()
	select {
	case <-r.due: // of an earlier wait
	default:
	}
	wait := r.mayGather(crowd)
	r.mu.Unlock()
	if !wait {
		return
	}
	select {
	case <-r.due:
	case <-time.After(gathering):
	}
}

func (r *recorder) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open, r.pending = r.used, nil
}

func (r *recorder) end() []store.Change {
	r.mu.Lock()
	defer r.mu.Unlock()
	pending := r.pending
	r.open, r.pending = false, nil
	return pending
}

func (r *recorder) later(c store.Change) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open {
		r.pending = append(r.pending, c)
	}
	return r.open
}

// write queues a transaction. The channel receives its error once it is on disk.
func (r *recorder) write(ctx context.Context, urgent bool, changes ...store.Change) <-chan error {
	done := make(chan error, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, write{context.WithoutCancel(ctx), changes, done, urgent})
	r.wake()
	if !r.writing {
		r.writing = true
		go r.writeQueue()
	}
	return done
}

func (r *recorder) writeQueue() {
	for {
		r.gather()
		r.mu.Lock()
		queue := r.queue
		r.queue = nil
		if r.writing = len(queue) > 0; !r.writing {
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		var changes []store.Change
		for _, w := range queue {
			changes = append(changes, w.changes...)
		}
		err := r.apply(queue[0].ctx, changes)
		for _, w := range queue {
			if err != nil && len(queue) > 1 { // one of them may be the cause
				w.done <- r.apply(w.ctx, w.changes)
				continue
			}
			w.done <- err
		}
	}
}

// apply turns a panic of the store into an error.
func (r *recorder) apply(ctx context.Context, changes []store.Change) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	return store.Apply(ctx, r.Broker, changes)
}

func (r *recorder) Put(ctx context.Context, key string, value []byte) error {
	return r.change(ctx, store.Change{KV: store.KV{Key: key, Value: value}})
}

func (r *recorder) Delete(ctx context.Context, key string) error {
	return r.change(ctx, store.Change{KV: store.KV{Key: key}, Deleted: true})
}

func (r *recorder) change(ctx context.Context, c store.Change) error {
	if r.later(c) {
		return nil
	}
	return <-r.write(ctx, true, c)
}

// List waits until the queue has been written.
func (r *recorder) List(ctx context.Context, prefix string) ([]store.KV, int64, error) {
	<-r.write(ctx, true)
	return r.Broker.List(ctx, prefix)
}

// Get waits until the queue has been written.
func (r *recorder) Get(ctx context.Context, key string) (store.KV, bool, error) {
	<-r.write(ctx, true)
	return r.Broker.Get(ctx, key)
}

// Store returns the local store for handlers with records of pods.
func (m *PodManager) Store() store.Broker { return m.db }

// Recorder returns an event handler that writes the records of a new pod in one transaction. It
// must come after the handlers that use Store and before those that configure the network. The pod
// is wired meanwhile; if the write fails, Server unwires it. Without a Recorder, each handler
// writes its own records.
func (m *PodManager) Recorder() controller.EventHandler {
	m.db.mu.Lock()
	defer m.db.mu.Unlock()
	m.db.used = true
	return commit{m.db}
}

type commit struct{ *recorder }

func (commit) String() string { return "recorder" }

func (commit) HandlesEvent(event controller.Event) bool {
	_, ok := event.(*AddPod)
	return ok
}

func (commit) Resync(context.Context, controller.Event, controller.KubeState, int, controller.ResyncOperations) error {
	return nil
}

func (c commit) Update(ctx context.Context, event controller.Event, _ controller.UpdateOperations) (string, error) {
	if add, ok := event.(*AddPod); ok {
		add.recorded = c.write(ctx, false, c.end()...)
		if add.queued != nil {
			add.queued()
		}
	}
	return "", nil
}

func (commit) Revert(context.Context, controller.Event) error { return nil }

func (e *AddPod) awaitRecord() error {
	if e.recorded == nil {
		return nil
	}
	if err := <-e.recorded; err != nil {
		return fmt.Errorf("remember pod %v and its addresses in the local store: %w", e.Pod, err)
	}
	return nil
}
