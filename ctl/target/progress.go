package target

import (
	"context"
	"slices"
	"sync"
	"time"
)

// patience is how long nobody needs to be told what is waited for.
const patience = time.Second

type progressKey struct{}

// WithProgress has tell called with what is waited for, such as the agents that have not answered, after a second and
// each second from then on, and with nil at the end if it was called before.
func WithProgress(ctx context.Context, tell func(waiting []string)) context.Context {
	return context.WithValue(ctx, progressKey{}, tell)
}

// Waiting says what is waited for until done is called.
func Waiting(ctx context.Context, what string) (done func()) {
	p := begin(ctx, []string{what})
	return func() { p.done(what) }
}

// progress is what is known of a question to several agents, or of something else that takes time.
type progress struct {
	tell func([]string)

	mu      sync.Mutex
	waiting []string
	told    bool
	timer   *time.Timer
}

// begin returns nil if nobody wants to know.
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

// done notes that something is waited for no longer.
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
