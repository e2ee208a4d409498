package podmanager

import (
	"context"
	"sync"
)

// line makes calls wait for earlier ones with which they have a key in common. The zero value is ready for use.
type line struct {
	mu   sync.Mutex
	last map[string]chan struct{} // by key: closed when the latest call with the key has left
}

// place is that of a call in a line, for some of its keys.
type place struct {
	line   *line
	keys   []string
	before []<-chan struct{}
	left   chan struct{}
	leave  func()
}

// enter appends a call to the line, in one step for all groups of keys. The caller must leave each of the places.
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

// first reports whether all calls before have left.
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

// wait returns when all calls before have left, or ctx's error.
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

// end lets the calls behind go on as soon as those before have left, which a call that was given up does not wait for.
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
