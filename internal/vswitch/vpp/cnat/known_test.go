package cnat

import (
	"log/slog"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
)

func connected(t *testing.T) *Translations {
	t.Helper()
	server := vpptest.New(t)
	vpp := session.New(server.Socket(), slog.New(slog.DiscardHandler))
	vpp.Start(session.Hooks{Modules: []*session.Module{module}})
	t.Cleanup(vpp.Close)
	if err := vpp.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return New(vpp, ownership.New(vpp), nil, nil, nil, slog.New(slog.DiscardHandler))
}

// After the first resync, ReadAhead does nothing, because listing holds up packets.
func TestWhatIsKnownIsNotReadAhead(t *testing.T) {
	v := connected(t)
	if _, err := v.listed(t.Context(), v6); err != nil {
		t.Fatal(err)
	}
	before := v.notes.known
	v.ReadAhead(t.Context())
	if v.notes.known != before {
		t.Error("translations were read again")
	}
}

// Translations read ahead expire if unused.
func TestWhatWasReadAheadExpires(t *testing.T) {
	v := connected(t)
	v.ReadAhead(t.Context())
	for _, test := range []struct {
		f     family
		age   time.Duration
		again bool
	}{{v6, 0, false}, {v4, 2 * readAheadTTL, true}, {v4, 0, true}} {
		before := v.notes.known[test.f]
		before.readAhead = before.readAhead.Add(-test.age)
		k, err := v.listed(t.Context(), test.f)
		if err != nil {
			t.Fatal(err)
		}
		if again := k != before; again != test.again {
			t.Errorf("%s, %v after it was read: read again %v, want %v", test.f, test.age, again, test.again)
		}
	}
}
