package dbwatcher

import (
	"maps"
	"slices"
	"testing"

	"github.com/contiv/contiv/internal/etcd/store"
)

// Requests that were deleted while no agent ran are forgotten.
func TestAnsweredRequestsAreForgotten(t *testing.T) {
	w := &Watcher{known: &known{nodePrefix: "/vnf-agent/node/"}, answered: map[string]int64{}}
	request := func(name string, revision int64) store.KV {
		return store.KV{Key: "/vnf-agent/node/resync/" + name, Value: []byte("{}"), Revision: revision}
	}
	for _, test := range []struct {
		snapshot   []store.KV
		open, know []string
	}{
		{[]store.KV{request("a", 1), request("b", 2)}, []string{"a", "b"}, []string{"a", "b"}},
		{[]store.KV{request("a", 1), request("c", 3)}, []string{"c"}, []string{"a", "c"}},
		{[]store.KV{request("a", 1)}, nil, []string{"a"}},
		{[]store.KV{request("a", 4)}, []string{"a"}, []string{"a"}},
		{nil, nil, nil},
	} {
		requests := w.requestsIn(test.snapshot)
		var open []string
		for _, r := range requests.open {
			open = append(open, r.name)
		}
		if !slices.Equal(open, test.open) {
			t.Errorf("requests %v: open are %v, want %v", requests.names, open, test.open)
		}
		requests.taken(w)
		if known := slices.Sorted(maps.Keys(w.answered)); !slices.Equal(known, test.know) {
			t.Errorf("of %v, %v are remembered, want %v", requests.names, known, test.know)
		}
	}
}
