package cache

import (
	"maps"

	"github.com/contiv/contiv/internal/plugins/podmanager"
)

// PodID identifies a pod.
type PodID = podmanager.PodID

// Watcher is called when a pod joins or leaves a selection, but not during Acquire and Release.
type Watcher func(selection *Selection, pod PodID, member bool)

// Cache is not safe for concurrent use.
type Cache struct {
	watcher    Watcher
	pods       map[PodID]*pod
	namespaces map[string]*namespace
	scopes     map[string]*scope
	// memberships is the number of members of all selections.
	memberships int
}

// New returns an empty cache.
func New(watcher Watcher) *Cache {
	return &Cache{watcher: watcher, pods: map[PodID]*pod{}, namespaces: map[string]*namespace{}, scopes: map[string]*scope{}}
}

type pod struct {
	id     PodID
	labels map[string]string
	in     map[*Selection]struct{}
}

// namespace exists while Kubernetes has it, it contains pods, or a scope refers to it by name.
type namespace struct {
	name string
	// labels is nil while Kubernetes does not have the namespace.
	labels  map[string]string
	pods    map[PodID]*pod
	byLabel map[string]map[PodID]*pod
	scopes  map[*scope]struct{}
}

type scope struct {
	Scope
	selections map[string]*Selection
	anchors    map[string]map[*Selection]struct{}
}

// An unknown namespace is included only by a scope of all namespaces.
func (s *scope) includes(n *namespace) bool {
	if s.Namespace != "" {
		return s.Namespace == n.name
	}
	return len(s.Namespaces) == 0 || n.labels != nil && s.Namespaces.Matches(n.labels)
}

// MayInclude reports whether a scope includes a namespace, or might once its labels are known.
func (c *Cache) MayInclude(s Scope, namespace string) bool {
	if s.Namespace != "" {
		return s.Namespace == namespace
	}
	return !c.KnowsNamespace(namespace) || s.Namespaces.Matches(c.namespaces[namespace].labels)
}

// KnowsNamespace reports whether the labels of a namespace are known.
func (c *Cache) KnowsNamespace(name string) bool {
	n := c.namespaces[name]
	return n != nil && n.labels != nil
}

// Selection is the set of pods that a selector selects in a scope.
type Selection struct {
	scope    *scope
	selector Selector
	members  map[PodID]struct{}
	users    int
}

// Selector returns the selector of the pods.
func (s *Selection) Selector() Selector { return s.selector }

// Memberships returns the number of members of all acquired selections.
func (c *Cache) Memberships() int { return c.memberships }

// Members returns the pods. Read-only, and valid until the next change.
func (s *Selection) Members() map[PodID]struct{} { return s.members }

// Key identifies a selection.
func Key(s Scope, selector Selector) string {
	if len(selector) == 0 {
		return "all pods in " + s.String()
	}
	return "pods " + selector.String() + " in " + s.String()
}

// String describes the selected pods for people, uniquely.
func (s *Selection) String() string { return Key(s.scope.Scope, s.selector) }

func (c *Cache) namespace(name string) *namespace {
	n := c.namespaces[name]
	if n == nil {
		n = &namespace{name: name, pods: map[PodID]*pod{}, byLabel: map[string]map[PodID]*pod{}, scopes: map[*scope]struct{}{}}
		c.namespaces[name] = n
		for _, s := range c.scopes {
			if s.includes(n) {
				n.scopes[s] = struct{}{}
			}
		}
	}
	return n
}

// Acquire returns a selection that is kept up to date until its last Release.
func (c *Cache) Acquire(where Scope, selector Selector) *Selection {
	s := c.scopes[where.String()]
	if s == nil {
		s = &scope{Scope: where, selections: map[string]*Selection{}, anchors: map[string]map[*Selection]struct{}{}}
		c.scopes[where.String()] = s
		if where.Namespace != "" {
			c.namespace(where.Namespace)
		}
		for _, n := range c.namespaces {
			if s.includes(n) {
				n.scopes[s] = struct{}{}
			}
		}
	}
	selection := s.selections[selector.String()]
	if selection == nil {
		selection = &Selection{scope: s, selector: selector, members: map[PodID]struct{}{}}
		s.selections[selector.String()] = selection
		add(s.anchors, selector.anchor(), selection)
		c.fill(selection)
	}
	selection.users++
	return selection
}

func (c *Cache) fill(selection *Selection) {
	join := func(n *namespace) {
		candidates, ok := n.byLabel[selection.selector.anchor()]
		if anchor := selection.selector.anchor(); !ok && (anchor == "" || !hasValue(anchor, selection.selector)) {
			candidates = n.pods
		}
		for id, p := range candidates {
			if selection.selector.Matches(p.labels) {
				selection.members[id] = struct{}{}
				c.memberships++
				p.in[selection] = struct{}{}
			}
		}
	}
	if name := selection.scope.Namespace; name != "" {
		join(c.namespace(name))
		return
	}
	for _, n := range c.namespaces {
		if _, ok := n.scopes[selection.scope]; ok {
			join(n)
		}
	}
}

// hasValue reports whether an anchor is "key=value".
func hasValue(anchor string, s Selector) bool {
	for _, r := range s {
		if r.Operator == In && len(r.Values) == 1 && r.Key+"="+r.Values[0] == anchor {
			return true
		}
	}
	return false
}

// Release ends one use of an acquired selection.
func (c *Cache) Release(selection *Selection) {
	if selection.users--; selection.users > 0 {
		return
	}
	for id := range selection.members {
		delete(c.pods[id].in, selection)
	}
	c.memberships -= len(selection.members)
	s := selection.scope
	delete(s.selections, selection.selector.String())
	remove(s.anchors, selection.selector.anchor(), selection)
	if len(s.selections) > 0 {
		return
	}
	delete(c.scopes, s.String())
	for _, n := range c.namespaces {
		delete(n.scopes, s)
		c.dropUnused(n)
	}
}

// SetPod adds a pod or changes its labels.
func (c *Cache) SetPod(id PodID, labels map[string]string) {
	n, p := c.namespace(id.Namespace), c.pods[id]
	if p == nil {
		p = &pod{id: id, in: map[*Selection]struct{}{}}
		c.pods[id], n.pods[id] = p, p
	}
	for k, v := range p.labels {
		if old := k + "=" + v; labels[k] != v || !hasKey(labels, k) {
			delete(n.byLabel[old], id)
			if len(n.byLabel[old]) == 0 {
				delete(n.byLabel, old)
			}
		}
	}
	p.labels = maps.Clone(labels)
	for k, v := range labels {
		if n.byLabel[k+"="+v] == nil {
			n.byLabel[k+"="+v] = map[PodID]*pod{}
		}
		n.byLabel[k+"="+v][id] = p
	}
	for s := range p.in {
		if !s.selector.Matches(p.labels) {
			c.leave(s, p)
		}
	}
	for s := range n.scopes {
		c.joinScope(s, p)
	}
}

func hasKey(labels map[string]string, key string) bool {
	_, ok := labels[key]
	return ok
}

func (c *Cache) joinScope(s *scope, p *pod) {
	join := func(anchor string) {
		for selection := range s.anchors[anchor] {
			if _, member := p.in[selection]; !member && selection.selector.Matches(p.labels) {
				c.join(selection, p)
			}
		}
	}
	join("")
	for k, v := range p.labels {
		join(k)
		join(k + "=" + v)
	}
}

func (c *Cache) join(s *Selection, p *pod) {
	s.members[p.id] = struct{}{}
	c.memberships++
	p.in[s] = struct{}{}
	c.watcher(s, p.id, true)
}

func (c *Cache) leave(s *Selection, p *pod) {
	delete(s.members, p.id)
	c.memberships--
	delete(p.in, s)
	c.watcher(s, p.id, false)
}

// DeletePod removes a pod.
func (c *Cache) DeletePod(id PodID) {
	p := c.pods[id]
	if p == nil {
		return
	}
	for s := range p.in {
		c.leave(s, p)
	}
	n := c.namespace(id.Namespace)
	for k, v := range p.labels {
		delete(n.byLabel[k+"="+v], id)
		if len(n.byLabel[k+"="+v]) == 0 {
			delete(n.byLabel, k+"="+v)
		}
	}
	delete(n.pods, id)
	delete(c.pods, id)
	c.dropUnused(n)
}

// SetNamespace adds a namespace or changes its labels.
func (c *Cache) SetNamespace(name string, labels map[string]string) {
	n := c.namespace(name)
	if n.labels = maps.Clone(labels); n.labels == nil {
		n.labels = map[string]string{}
	}
	c.rescope(n)
}

// DeleteNamespace forgets the labels of a namespace. Its pods stay.
func (c *Cache) DeleteNamespace(name string) {
	n := c.namespace(name)
	n.labels = nil
	c.rescope(n)
	c.dropUnused(n)
}

func (c *Cache) rescope(n *namespace) {
	for _, s := range c.scopes {
		_, was := n.scopes[s]
		switch is := s.includes(n); {
		case was && !is:
			delete(n.scopes, s)
			for _, p := range n.pods {
				for selection := range p.in {
					if selection.scope == s {
						c.leave(selection, p)
					}
				}
			}
		case is && !was:
			n.scopes[s] = struct{}{}
			for _, p := range n.pods {
				c.joinScope(s, p)
			}
		}
	}
}

func (c *Cache) dropUnused(n *namespace) {
	if n.labels == nil && len(n.pods) == 0 && c.scopes[Scope{Namespace: n.name}.String()] == nil {
		delete(c.namespaces, n.name)
	}
}

// SelectionsOf returns the selections that contain a pod. Read-only.
func (c *Cache) SelectionsOf(id PodID) map[*Selection]struct{} {
	if p := c.pods[id]; p != nil {
		return p.in
	}
	return nil
}

func add[K comparable](index map[string]map[K]struct{}, key string, k K) {
	if index[key] == nil {
		index[key] = map[K]struct{}{}
	}
	index[key][k] = struct{}{}
}

func remove[K comparable](index map[string]map[K]struct{}, key string, k K) {
	delete(index[key], k)
	if len(index[key]) == 0 {
		delete(index, key)
	}
}
