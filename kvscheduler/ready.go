package kvscheduler

import (
	"slices"
	"strings"

	"github.com/contiv/contiv/kvscheduler/record"
)

// unmet returns the labels of the unmet dependencies of n, or nil if n may exist.
//
// A dependency is met if a matching value is available. The members of a cycle of dependencies that
// wait only for each other become ready together: see cycle.
func (x *exec) unmet(n *node) []string {
	if !x.mustWait(n) {
		return nil
	}
	return x.unmetLabels(n)
}

// mustWait reports whether n has unmet dependencies and may not exist. It is unmet without the
// labels.
func (x *exec) mustWait(n *node) bool {
	if !x.hasUnmet(n) {
		return false
	}
	if !x.g.HasNeeders(n.key) || slices.ContainsFunc(n.oldDeps(), func(d Dependency) bool { return !x.met(&d) }) {
		return true // a future cycle does not help the existing version
	}
	ready, known := x.cycleCache.lookup(n.key)
	if !known {
		ready = newCycle(x, n).ready()
	}
	return !ready
}

// hasUnmet reports whether no available value satisfies one of the dependencies of n.
func (x *exec) hasUnmet(n *node) bool {
	for i := range n.deps {
		if !x.met(&n.deps[i]) {
			return true
		}
	}
	return false
}

// unmetLabels returns the labels of the dependencies of n that no available value satisfies.
func (x *exec) unmetLabels(n *node) []string {
	var labels []string
	for i := range n.deps {
		if !x.met(&n.deps[i]) {
			labels = append(labels, n.depLabel(i))
		}
	}
	return labels
}

// canStay reports whether an existing value may keep existing.
func (x *exec) canStay(n *node) bool {
	if !x.hasUnmet(n) {
		return x.isSupported(n)
	}
	return !x.mustWait(n)
}

// depLabel returns the label of a dependency, with its target appended if the label is not unique.
func (n *node) depLabel(i int) string {
	d := &n.deps[i]
	for j := range n.deps {
		if j != i && n.deps[j].Label == d.Label {
			return d.Label + " (" + d.target() + ")"
		}
	}
	return d.Label
}

// target returns the key or the prefixes of the dependency as text.
func (d *Dependency) target() string {
	if d.Key != "" {
		return d.Key
	}
	text := strings.TrimSpace(record.AnyOf)
	for _, p := range d.AnyOf.prefixes() {
		text += " " + p + "*"
	}
	return text
}

func (x *exec) met(d *Dependency) bool {
	return x.satisfied(d, func(n *node) bool { return n.available() })
}

// satisfied reports whether a matching value is good. It first tries the value that satisfied the
// prefix last, because most values with a prefix may be gone.
func (x *exec) satisfied(d *Dependency, good func(n *node) bool) bool {
	if d.Key != "" {
		n, ok := x.g.Get(d.Key)
		return ok && good(n)
	}
	prefixes := d.AnyOf.prefixes()
	for _, p := range prefixes {
		if key, ok := x.provider(p); ok {
			if n, ok := x.g.Get(key); ok && good(n) && d.AnyOf.selects(key) {
				return true
			}
		}
	}
	found := false
	x.candidates(d, func(n *node) bool {
		if found = good(n); found {
			for _, p := range prefixes {
				if x.keySets != nil && strings.HasPrefix(n.key, p) {
					x.providers[p] = n.key
				}
			}
		}
		return !found
	})
	return found
}

// provider returns the key that satisfied an AnyOf with the prefix last.
func (x *exec) provider(prefix string) (key string, ok bool) {
	if x.keySets != nil {
		key, ok = x.providers[prefix]
	}
	return key, ok
}

func (d *Dependency) matches(key string) bool {
	if d.Key != "" {
		return d.Key == key
	}
	return slices.ContainsFunc(d.AnyOf.prefixes(), func(p string) bool { return strings.HasPrefix(key, p) }) && d.AnyOf.selects(key)
}

// candidates visits the values that match the dependency until visit returns false.
func (x *exec) candidates(d *Dependency, visit func(n *node) bool) {
	if d.Key != "" {
		if n, ok := x.g.Get(d.Key); ok {
			visit(n)
		}
		return
	}
	more := true
	for _, p := range d.AnyOf.prefixes() {
		x.g.Ascend(p, func(key string, n *node) bool {
			if d.AnyOf.selects(key) {
				more = visit(n)
			}
			return more
		})
		if !more {
			return
		}
	}
}

// selects calls the KeySelector. A selector that panics selects nothing.
func (a *AnyOf) selects(key string) bool {
	if a.KeySelector == nil {
		return true
	}
	var err error
	selected := false
	func() {
		defer caught(&err, key, "KeySelector")
		selected = a.KeySelector(key)
	}()
	return selected
}
