package ksr

import (
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
)

func TestFormatIsWrittenFirst(t *testing.T) {
	s := memory.New()
	r := reflect(t, s)
	r.source.report(newNode("n"))
	await(t, s, "contiv-ksr/k8s/node/n")
	format, _, err := s.Get(t.Context(), formatKey)
	if err != nil || string(format.Value) != string(kubestate.FormatValue()) {
		t.Fatalf("%q, %v", format.Value, err)
	}
	if node, _, err := s.Get(t.Context(), Node.KeyPrefix()+"n"); err != nil || node.Revision <= format.Revision {
		t.Errorf("the node has revision %d, the format %d, %v", node.Revision, format.Revision, err)
	}
}

func TestStoreOfANewerVersionIsLeftAlone(t *testing.T) {
	s := memory.New()
	put(t, s, "contiv-ksr/format", `{"number":99}`)
	put(t, s, "contiv-ksr/k8s/node/other", `{"name":"other"}`)
	r := reflect(t, s)
	r.source.report(newNode("n"))
	awaitStatus(t, r, func(status StoreStatus) bool {
		return strings.Contains(status.Error, "newer version of Contiv") && !status.Synced
	})
	await(t, s, "contiv-ksr/k8s/node/other")

	put(t, s, "contiv-ksr/format", `{"number":1}`)
	await(t, s, "contiv-ksr/k8s/node/n")
}
