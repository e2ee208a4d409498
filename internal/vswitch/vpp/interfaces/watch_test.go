package interfaces

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
)

// Failed reads are retried with growing delays, together with new events.
func TestReadsThatFailAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newIfEvents()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		start, fails := time.Now(), 4
		var looked []string
		go e.follow(ctx, func(_ context.Context, n news) news {
			looked = append(looked, fmt.Sprintf("%v: %v %v %v", time.Since(start).Round(100*time.Millisecond), slices.Sorted(maps.Keys(n.changed)), slices.Sorted(maps.Keys(n.gone)), n.lost))
			if fails--; fails < 0 {
				return newNews()
			}
			delete(n.gone, "a")
			return n
		})
		e.note(func(n *news) { n.changed[1], n.gone["a"], n.gone["b"] = struct{}{}, struct{}{}, struct{}{} })
		time.Sleep(500 * time.Millisecond)
		e.note(func(n *news) { n.changed[2], n.lost = struct{}{}, true })
		time.Sleep(time.Hour)
		synctest.Wait()
		want := []string{"0s: [1] [a b] false", "100ms: [1] [b] false", "400ms: [1] [b] false", "500ms: [1 2] [b] true", "1.3s: [1 2] [b] true"}
		if !slices.Equal(looked, want) {
			t.Errorf("looked %q, want %q", looked, want)
		}
	})
}

// An unknown interface is not reported, and not as gone.
func TestLookWithoutAnswer(t *testing.T) {
	vpp := session.New("/nonexistent", slog.New(slog.DiscardHandler)) // not started
	v := &Interfaces{vpp: vpp, ifs: ownership.New(vpp), events: newIfEvents()}
	n := newNews()
	n.changed[1], n.gone["a"], n.lost = struct{}{}, struct{}{}, true
	if unread := v.look(t.Context(), n); len(unread.changed) != 1 || len(unread.gone) != 1 || !unread.lost {
		t.Errorf("not read: %v, want everything", unread)
	}
}
