package ksr

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/agent/health/published"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
)

func awaitKSR(t *testing.T, s *memory.Store, ok func(published.KSR) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	watch, err := s.Watch(ctx, 0, published.KSRKey)
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	for {
		kv, found, err := s.Get(ctx, published.KSRKey)
		if err != nil {
			t.Fatal(err)
		}
		var status published.KSR
		if text = kv.Value; found && json.Unmarshal(kv.Value, &status) == nil && ok(status) {
			return
		}
		if _, more := <-watch; !more {
			t.Fatalf("published is %s", text)
		}
	}
}

func TestStatusIsPublished(t *testing.T) {
	s := memory.New()
	r := reflect(t, s)
	r.source <- Changes{Set: []Object{newPod("a")}}
	awaitKSR(t, s, func(p published.KSR) bool {
		return p.Instance == "host1" && p.Version == "v1" && !p.Complete && slices.Equal(p.Problems, []string{"a.yaml: is empty"})
	})
	r.source.report()
	awaitKSR(t, s, func(p published.KSR) bool { return p.Complete })

	large := newPod("large")
	large.Annotations = map[string]string{"contivpp.io/x": strings.Repeat("x", maxValue)}
	r.source.report(large)
	awaitKSR(t, s, func(p published.KSR) bool {
		return len(p.Problems) == 2 && strings.HasPrefix(p.Problems[1], "pod default/large cannot be reflected, keeping its previous state: it has ")
	})
	r.source.report(newPod("large"))
	awaitKSR(t, s, func(p published.KSR) bool { return len(p.Problems) == 1 })

	odd := newPod("odd")
	odd.Status.PodIP = "10.1.1.300"
	r.source.report(odd)
	awaitKSR(t, s, func(p published.KSR) bool {
		return len(p.Problems) == 2 && strings.HasPrefix(p.Problems[1], `pod default/odd has fields that cannot be read and have no effect: status.podIP: "10.1.1.300" is no IP address`)
	})
	r.source.report(newPod("odd"))
	awaitKSR(t, s, func(p published.KSR) bool { return len(p.Problems) == 1 })

	// Only the first ones are named.
	var many []string
	for i := range published.MaxProblems + 3 {
		many = append(many, fmt.Sprintf("%d.yaml: is empty", i))
	}
	r.wrong.Store(many)
	awaitKSR(t, s, func(p published.KSR) bool { return len(p.Problems) == published.MaxProblems && p.More == 3 })

	s.Wipe()
	awaitKSR(t, s, func(p published.KSR) bool { return p.Complete })
}
