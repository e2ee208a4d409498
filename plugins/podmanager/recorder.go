package podmanager

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/store"
)

// recorder is the local store, in which what handlers write of a new pod is one
// transaction, written while the pod is wired: a write waits twice for the disk, and
// kubelet waits for us.
//
//	AddPod ──> podmanager ──> ipam ──> Recorder ──> ipnet … kernel ──┐
//	            begin, Put     Put      commit                       ├──> ADD returns
//	                                      └──> queue ──write──> disk ┘
//
// Changes reach the disk in the order in which they were made. Those that come while the disk
// is busy are written together, and so are those of many ADDs at once (see gathering). An agent
// that ends in between has not answered the ADD; the next one does not know the pod, and removes
// its network.
//
// Between begin and commit, writes are not to be read back yet. All of it is done by the event
// loop.
type recorder struct {
	store.Broker

	mu sync.Mutex
	// used: there is a Recorder, which commits.
	used    bool
	open    bool
	pending []store.Change

	// queue are the transactions that wait for the writer, which runs while there are any.
	queue   []write
	writing bool

	// expected is how many ADDs in progress have not queued a transaction yet.
	expected int
	// due gets a value when the writer need not wait any longer.
	due chan struct{}
}

const (
	// gathering is how long a write waits for those of other ADDs: a few pods are wired in that time, and
	// an ADD that has so many others beside it takes longer anyway.
	gathering = 20 * time.Millisecond
	// crowd is for how many ADDs a write begins to wait.
	crowd = 4
)

// write is a transaction on its way to the disk. done gets its error.
type write struct {
	ctx     context.Context
	changes []store.Change
	done    chan<- error
	// urgent: the event loop waits for it.
	urgent bool
}

// expect is called when an ADD begins. Its end calls queued, unless the ADD did so when it queued its transaction.
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

// mayGather reports whether the writer may wait for this many more, or more than that.
func (r *recorder) mayGather(more int) bool {
	return r.expected >= more && !slices.ContainsFunc(r.queue, func(w write) bool { return w.urgent })
}

// wake ends the writer's wait if it must not go on. It goes on for the last few of a crowd, too: they would wait for
// the disk twice. The lock is held.
func (r *recorder) wake() {
	if r.mayGather(1) {
		return
	}
	select {
	case r.due <- struct{}{}:
	default:
	}
}

// gather returns when what is queued is to be written.
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

// begin starts a transaction if a Recorder will commit it.
func (r *recorder) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open, r.pending = r.used, nil
}

// end ends the transaction, if there is one, and returns what was to be written.
func (r *recorder) end() []store.Change {
	r.mu.Lock()
	defer r.mu.Unlock()
	pending := r.pending
	r.open, r.pending = false, nil
	return pending
}

// later puts a change off until the commit, if a transaction was begun.
func (r *recorder) later(c store.Change) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open {
		r.pending = append(r.pending, c)
	}
	return r.open
}

// write queues a transaction. The channel gets its error when it is on the disk.
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

// writeQueue writes what is queued, all that has come meanwhile at once, and ends when
// the queue is empty.
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
			if err != nil && len(queue) > 1 { // perhaps because of one of them
				w.done <- r.apply(w.ctx, w.changes)
				continue
			}
			w.done <- err
		}
	}
}

// apply makes changes; a panic of the store is an error.
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

// List returns what is on the disk when all that is queued has been written.
func (r *recorder) List(ctx context.Context, prefix string) ([]store.KV, int64, error) {
	<-r.write(ctx, true)
	return r.Broker.List(ctx, prefix)
}

// Get is like List, for one key.
func (r *recorder) Get(ctx context.Context, key string) (store.KV, bool, error) {
	<-r.write(ctx, true)
	return r.Broker.Get(ctx, key)
}

// Store returns the local store for handlers that remember something of pods.
func (m *PodManager) Store() store.Broker { return m.db }

// Recorder returns an event handler that has to follow those that use Store, and precede those that
// describe the network: it has what they have put of a new pod written, all of it or nothing. The
// pod is wired meanwhile; Server undoes that if it cannot be written. If there is no Recorder, they
// write by themselves.
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

// awaitRecord returns when a pod that was wired is remembered on the disk, and what of it could
// not be written.
func (e *AddPod) awaitRecord() error {
	if e.recorded == nil {
		return nil
	}
	if err := <-e.recorded; err != nil {
		return fmt.Errorf("remember pod %v and its addresses in the local store: %w", e.Pod, err)
	}
	return nil
}
