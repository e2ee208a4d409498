package dbwatcher

import (
	"testing"

	"github.com/contiv/contiv/internal/etcd/store"
)

// Each request has a valid resync type or an error with a remedy.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"type":"full"}`))
	f.Add([]byte(``))
	f.Add([]byte(`{"type":"Upstream`))
	f.Add([]byte(`{"type":"\xff"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := newRequest("me", store.KV{Value: data, Revision: 3})
		if r.revision != 3 || r.err != nil && r.err.Error() == "" {
			t.Errorf("request %+v", r)
		}
		if known := r.kind == fullResync || r.kind == upstreamResync || r.kind == downstreamResync; known != (r.err == nil) {
			t.Errorf("request %+v", r)
		}
	})
}
