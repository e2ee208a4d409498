package dbwatcher

import (
	"context"
	"encoding/json"

	"github.com/contiv/contiv/store"
)

// originKey is the key under which the mirror identifies its original; outside of the prefixes that
// are mirrored.
const originKey = "/mirror/origin"

// origin identifies the state of the database that the mirror is a copy of, so that a restarted
// agent recognises a database that lost its data meanwhile.
type origin struct {
	// Identity of the database (store.Identified); "": unknown.
	Identity string `json:"identity,omitempty"`
	// Revision that the mirrored values had at least.
	Revision int64 `json:"revision,omitempty"`
	// Reflected: KSR had filled the database.
	Reflected bool `json:"reflected,omitempty"`
}

// recall takes the known state from the mirror until the database can be read.
func (w *Watcher) recall(ctx context.Context) {
	kvs, err := w.mirror.load(ctx, w.known.prefixes())
	if err == nil {
		w.origin, err = w.mirror.loadOrigin(ctx)
	}
	if err != nil {
		w.log.Error("The local mirror cannot be read", "error", err)
		return
	}
	w.known.replace(kvs)
	w.lastRevision = w.origin.Revision
}

// identityOfRemote is that of the database; "" if it has none.
func (w *Watcher) identityOfRemote() string {
	if remote, ok := w.Remote.(store.Identified); ok {
		return remote.Identity()
	}
	return ""
}

// loadOrigin returns what was saved; nothing, if that cannot be understood.
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

// withOrigin adds the origin to changes of the mirror. It is written with other
// changes, or if more than its revision changed: each write waits for the disk.
func (m *mirror) withOrigin(changes []store.Change, o origin) []store.Change {
	if sameBut := m.saved; len(changes) == 0 {
		sameBut.Revision = o.Revision
		if sameBut == o {
			return nil
		}
	}
	data, err := json.Marshal(o)
	if err != nil {
		panic(err) // a struct of plain fields
	}
	return append(changes, store.Change{KV: store.KV{Key: originKey, Value: data}})
}
