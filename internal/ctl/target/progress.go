package target

import (
	"context"
	"slices"
	"sync"
	"time"
)

// patience is the delay before a wait is shown.
const patience = time.Second

type progressKey struct{}

// WithProgress calls tell with the pending items, such as agents without an answer, after each
// second. At the end, it calls it with nil if it was called before.
func WithProgress(ctx context.Context, tell func(waiting []string)) context.Context {
	return context.WithValue(ctx, progressKey{}, tell)
}

// Waiting adds an item to the pending ones until done is called.
func Waiting(ctx context.Context, what string) (done func()) {
	p := begin(ctx, []string{what})
	return func() { p.done(what) }
}

type progress struct {
	tell func([]string)

	mu      sync.Mutex
	waiting []string
	told    bool
	timer   *time.Timer
}

// begin returns nil without a WithProgress.
func begin(ctx context.Context, waiting []string) *progress {
	tell, _ := ctx.Value(progressKey{}).(func([]string))
	if tell == nil {
		return nil
	}
	p := &progress{tell: tell, waiting: waiting}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(patience, p.tick)
	return p
}

func (p *progress) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == 0 {
		return
	}
	p.tell(slices.Clone(p.waiting))
	p.told = true
	p.timer.Reset(patience)
}

func (p *progress) done(what string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.waiting, what); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
	}
	if len(p.waiting) > 0 {
		return
	}
	p.timer.Stop()
	if p.told {
		p.tell(nil)
	}
}
