package dbwatcher

import (
	"context"
	"encoding/json"

	"github.com/contiv/contiv/internal/etcd/store"
)

// originKey is outside of the mirrored prefixes.
const originKey = "/mirror/origin"

// origin identifies the database state that the mirror is a copy of. It lets a restarted agent
// detect that the database lost its data.
type origin struct {
	// Identity of the database (store.Identified); "": unknown
	Identity string `json:"identity,omitempty"`
	// Revision is a lower bound of the mirrored revision.
	Revision int64 `json:"revision,omitempty"`
	// Reflected: KSR had filled the database
	Reflected bool `json:"reflected,omitempty"`
}

// loadMirror loads the known state from the mirror until the database can be read.
func (w *Watcher) loadMirror(ctx context.Context) {
	kvs, err := w.mirror.load(ctx, w.known.prefixes())
	if err == nil {
		w.origin, err = w.mirror.loadOrigin(ctx)
	}
	if err != nil {
		w.log.Error("Reading the local mirror failed", "error", err)
		return
	}
	w.known.replace(kvs)
	w.lastRevision = w.origin.Revision
}

func (w *Watcher) identityOfRemote() string {
	if remote, ok := w.Remote.(store.Identified); ok {
		return remote.Identity()
	}
	return ""
}

// loadOrigin returns the saved origin, or a zero one if it cannot be decoded.
func (m *mirror) loadOrigin(ctx context.Context) (o origin, err error) {
	if m.local == nil {
		return o, nil
	}
	kv, found, err := m.local.Get(ctx, originKey)
	if err != nil || !found {
		return o, err
	}
	if json.Unmarshal(kv.Value, &o) != nil {
		return origin{}, nil
	}
	m.saved = o
	return o, nil
}

// withOrigin adds the origin to changes of the mirror. A changed revision alone is not written,
// because each write waits for the disk.
func (m *mirror) withOrigin(changes []store.Change, o origin) []store.Change {
	if sameBut := m.saved; len(changes) == 0 {
		sameBut.Revision = o.Revision
		if sameBut == o {
			return nil
		}
	}
	data, err := json.Marshal(o)
	if err != nil {
		panic(err) // cannot fail for this struct
	}
	return append(changes, store.Change{KV: store.KV{Key: originKey, Value: data}})
}
