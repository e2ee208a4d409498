package graph

import "sync"

// published makes a graph visible to other goroutines as it was at the last Publish.
//
//	Publish ──> Set, Delete: change the graph in place, and append the old node to before
//	View ─────> copies the graph and undoes before; later changes copy their path
//
// Changes between two Publishes without a View copy nothing.
type published[N Node] struct {
	// mu guards the nodes and the fields below.
	mu     sync.Mutex
	order  *order      // order at Publish; nil: not published yet
	view   *Graph[N]   // nil until the first View after Publish
	before []before[N] // changes to undo in order to create view
}

// before is the node that a change replaced, or the new node if none existed.
type before[N Node] struct {
	n       N
	existed bool
}

// rememberedChanges bounds the cost of View: after more changes, the view is created eagerly.
const rememberedChanges = 64

// Publish makes the current content visible to View in O(1).
func (g *Graph[N]) Publish() {
	p := &g.published
	p.mu.Lock()
	defer p.mu.Unlock()
	p.order, g.shared = g.order, true
	p.forget()
}

// View returns the graph as it was at the last Publish, in O(1). The result must not be changed. View is
// safe for concurrent use, even with changes of the graph.
func (g *Graph[N]) View() *Graph[N] {
	p := &g.published
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.view == nil {
		g.makeView()
	}
	return p.view
}

// remember stores a change for makeView. The caller holds mu.
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

// makeView creates the view. The caller holds mu.
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

// forget drops the view and the stored changes. The caller holds mu.
func (p *published[N]) forget() {
	p.view = nil
	clear(p.before)
	p.before = p.before[:0]
}
