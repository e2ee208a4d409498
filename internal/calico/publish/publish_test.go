package publish

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// place fails on demand.
type place struct {
	err  error
	puts int
}

func (p *place) Put(context.Context) error {
	p.puts++
	return p.err
}

// A failure is logged once, and cleared by the next success.
func TestPublishesAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		at := &place{err: errors.New("full")}
		p := &Publisher{Place: at, Period: time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); p.Run(ctx) }()
		time.Sleep(2500 * time.Millisecond)
		if p.Err() == nil || at.puts != 3 || strings.Count(log.String(), "full") != 1 {
			t.Errorf("after %d attempts: %v, log %s", at.puts, p.Err(), log.String())
		}
		at.err = nil
		time.Sleep(time.Second)
		if p.Err() != nil {
			t.Errorf("error %v", p.Err())
		}
		cancel()
		<-done
	})
}
