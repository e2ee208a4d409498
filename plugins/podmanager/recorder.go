package podmanager

import (
	"context"
	"fmt"
	"sync"

	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/store"
)

// recorder is the local store, in which what handlers write of a new pod is one
// transaction: each one waits for the disk, while kubelet waits for us.
//
//	AddPod ──> podmanager ──> ipam ──> Recorder ──> ipnet …
//	            begin, Put     Put      commit
//
// Between begin and commit, writes are not to be read back yet. All of it is done by the event
// loop.
type recorder struct {
	store.Broker

	mu sync.Mutex
	// used tells that there is a Recorder, which commits.
	used    bool
	open    bool
	pending []store.Change
}

// begin starts a transaction, if somebody will commit it.
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

func (r *recorder) Put(ctx context.Context, key string, value []byte) error {
	if r.later(store.Change{KV: store.KV{Key: key, Value: value}}) {
		return nil
	}
	return r.Broker.Put(ctx, key, value)
}

func (r *recorder) Delete(ctx context.Context, key string) error {
	if r.later(store.Change{KV: store.KV{Key: key}, Deleted: true}) {
		return nil
	}
	return r.Broker.Delete(ctx, key)
}

// Store returns the local store for handlers that remember something of pods.
func (m *PodManager) Store() store.Broker { return m.db }

// Recorder returns an event handler that has to follow those who use Store, and precede
// those that describe the network: it writes what they have put of a new pod, all of
// it or nothing and an error. If it is not asked for, they write by themselves.
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
		if err := store.Apply(ctx, c.Broker, c.end()); err != nil {
			return "", fmt.Errorf("remember pod %v and its addresses in the local store: %w", add.Pod, err)
		}
	}
	return "", nil
}

func (commit) Revert(context.Context, controller.Event) error { return nil }
