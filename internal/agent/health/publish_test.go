package health

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/contiv/internal/agent/health/published"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
)

// A changed verdict appears in etcd soon, without cluster problems, and is written again if etcd
// lost it.
func TestVerdictIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		etcd, some := memory.New(), ""
		var broken, taken error
		m := NewMonitor(func() error { return broken },
			Check{Name: "some", Look: func(context.Context) []string {
				if some == "" {
					return nil
				}
				return []string{some}
			}},
			Check{Name: "ksr", Cluster: true, Look: func(context.Context) []string { return []string{"KSR: is ill"} }})
		ctx, cancel := context.WithCancel(t.Context())
		go Publisher{Monitor: m, Etcd: etcd, Node: "n1", Version: "v1", Mine: func() error { return taken }, Log: slog.New(slog.DiscardHandler)}.Run(ctx)
		defer cancel()
		revision := int64(0)
		expect := func(when, want string, written bool) {
			t.Helper()
			m.Look(t.Context())
			time.Sleep(period)
			kv, _, err := etcd.Get(t.Context(), published.NodeKey("n1"))
			if err != nil {
				t.Fatal(err)
			}
			var n published.Node
			if err := json.Unmarshal(kv.Value, &n); err != nil {
				t.Fatalf("%s: %q: %v", when, kv.Value, err)
			}
			text := n.Verdict + " " + n.Error
			for _, p := range n.Problems {
				text += fmt.Sprintf("%s: %s", p.Check, p.Text)
			}
			if text != want || n.Version != "v1" || (kv.Revision != revision) != written {
				t.Errorf("%s: got %q at revision %d, before it was %d", when, text, kv.Revision, revision)
			}
			revision = kv.Revision
		}
		expect("at first", "healthy ", true)
		expect("later", "healthy ", false)
		some = "3 of these"
		expect("with a problem", "degraded some: 3 of these", true)
		some = "4 of these"
		expect("with another number", "degraded some: 3 of these", false)
		broken = errors.New("not ready")
		expect("broken", "broken not readysome: 4 of these", true)
		etcd.Wipe()
		time.Sleep(rewrite)
		expect("after a loss", "broken not readysome: 4 of these", true)
		taken, broken = errors.New("another agent has the name"), nil
		expect("of another agent", "broken not readysome: 4 of these", false)
	})
}
