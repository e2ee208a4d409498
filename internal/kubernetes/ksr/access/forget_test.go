package access

import (
	"fmt"
	"log/slog"
	"maps"
	"testing"
)

func TestReleasedIDsAreForgotten(t *testing.T) {
	k := &Keeper{log: slog.New(slog.DiscardHandler), released: map[string]uint32{}, lost: map[string]uint32{}}
	given := func(of map[string]uint32) identities {
		i := identities{of: of, used: map[uint32]bool{}}
		for _, id := range of {
			i.used[id] = true
		}
		return i
	}
	for i := range 1000 {
		name := fmt.Sprintf("spot%d", i)
		k.forgetReleased(given(map[string]uint32{"old": 1, name: 2}))
		k.release(name, nodePermissions(name, 2))
	}
	if want := map[string]uint32{"spot999": 2}; !maps.Equal(k.released, want) {
		t.Errorf("%d nodes are remembered, want %v", len(k.released), want)
	}
	k.forgetReleased(given(map[string]uint32{"old": 1, "spot999": 2}))
	if len(k.released) != 1 {
		t.Error("a node lost its ID while it left")
	}
}
