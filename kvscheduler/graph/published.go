package graph

import "sync"

// published is what View returns: the content of a graph as it was at the last Publish.
//
//	Publish ──> Set, Delete: the graph changes in place, and before remembers what was there
//	View ─────> a copy, in which before is put back; the graph copies what it changes from then on
//
// So changes that nobody looks at between them copy nothing.
type published[N Node] struct {
	// mu is held while nodes change, and while a view is made.
	mu     sync.Mutex
	order  *order      // nil: nothing was published
	view   *Graph[N]   // nil: nobody has asked for it
	before []before[N] // without a view: what it lacks, in the order of the changes
}

// before is what a change replaced or, if nothing was there, the new node.
type before[N Node] struct {
	n       N
	existed bool
}

// rememberedChanges bounds what making a view costs. With more changes, it is made at once.
const rememberedChanges = 64

// Publish makes the present content what View returns. O(1).
func (g *Graph[N]) Publish() {
	p := &g.published
	p.mu.Lock()
	defer p.mu.Unlock()
	p.order, g.shared = g.order, true
	p.forget()
}

// View returns the graph as it was when it was published last. It must not be changed. Unlike everything else, any goroutine may
// call it at any time. O(1).
func (g *Graph[N]) View() *Graph[N] {
	p := &g.published
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.view == nil {
		g.makeView()
	}
	return p.view
}

// remember takes down a change of the nodes, so that a view can be made without it. The caller holds the lock.
func (g *Graph[N]) remember(n N, existed bool) {
	p := &g.published
	if p.order == nil || p.view != nil {
		return
	}
	p.before = append(p.before, before[N]{n, existed})
	if len(p.before) == rememberedChanges {
		g.makeView()
	}
}

// makeView makes the view. The caller holds the lock.
func (g *Graph[N]) makeView() {
	p := &g.published
	view := &Graph[N]{nodes: g.nodes.copy(), order: p.order, shared: true}
	for i := len(p.before) - 1; i >= 0; i-- {
		if b := p.before[i]; b.existed {
			view.nodes.set(b.n)
		} else {
			view.nodes.delete(b.n.Key())
		}
	}
	p.forget()
	p.view = view
}

// forget drops the view and what is needed for one. The caller holds the lock.
func (p *published[N]) forget() {
	p.view = nil
	clear(p.before)
	p.before = p.before[:0]
}
