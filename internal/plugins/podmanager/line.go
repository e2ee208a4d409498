package podmanager

import (
	"context"
	"sync"
)

// line serialises calls that share a key. The zero value is ready for use.
type line struct {
	mu   sync.Mutex
	last map[string]chan struct{} // by key: closed when the key's latest call has left
}

// place is the position of a call in a line for some of its keys.
type place struct {
	line   *line
	keys   []string
	before []<-chan struct{}
	left   chan struct{}
	leave  func()
}

// enter atomically adds a call to the line, with one place per group of keys. The caller must leave
// each place.
func (l *line) enter(groups ...[]string) []*place {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.last = map[string]chan struct{}{}
	}
	var places []*place
	for _, keys := range groups {
		p := &place{line: l, keys: keys, left: make(chan struct{})}
		p.leave = sync.OnceFunc(p.end)
		for _, key := range keys {
			if before := l.last[key]; before != nil {
				p.before = append(p.before, before)
			}
			l.last[key] = p.left
		}
		places = append(places, p)
	}
	return places
}

func (p *place) first() bool {
	for _, before := range p.before {
		select {
		case <-before:
		default:
			return false
		}
	}
	return true
}

func (p *place) wait(ctx context.Context) error {
	for _, before := range p.before {
		select {
		case <-before:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// end leaves the place once all earlier calls have left, without blocking. It is for abandoned
// calls.
func (p *place) end() {
	if !p.first() {
		go func() {
			_ = p.wait(context.Background())
			p.close()
		}()
		return
	}
	p.close()
}

func (p *place) close() {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	for _, key := range p.keys {
		if p.line.last[key] == p.left {
			delete(p.line.last, key)
		}
	}
	close(p.left)
}
