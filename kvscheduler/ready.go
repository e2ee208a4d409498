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
func (v *view) unmet(n *node) []string {
	if !v.mustWait(n) {
		return nil
	}
	return v.unmetLabels(n)
}

// mustWait reports whether n has unmet dependencies and may not exist. It is unmet without the
// labels.
func (v *view) mustWait(n *node) bool {
	if !v.hasUnmet(n) {
		return false
	}
	if !v.g.HasNeeders(n.key) || slices.ContainsFunc(n.oldDeps(), func(d Dependency) bool { return !v.met(&d) }) {
		return true // a future cycle does not help the existing version
	}
	ready, known := v.cycleCache.lookup(n.key)
	if !known {
		ready = newCycle(v, n).ready()
	}
	return !ready
}

// hasUnmet reports whether no available value satisfies one of the dependencies of n.
func (v *view) hasUnmet(n *node) bool {
	for i := range n.deps {
		if !v.met(&n.deps[i]) {
			return true
		}
	}
	return false
}

// unmetLabels returns the labels of the dependencies of n that no available value satisfies.
func (v *view) unmetLabels(n *node) []string {
	var labels []string
	for i := range n.deps {
		if !v.met(&n.deps[i]) {
			labels = append(labels, n.depLabel(i))
		}
	}
	return labels
}

// canStay reports whether an existing value may keep existing.
func (v *view) canStay(n *node) bool {
	if !v.hasUnmet(n) {
		return v.isSupported(n)
	}
	return !v.mustWait(n)
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

func (v *view) met(d *Dependency) bool {
	return v.satisfied(d, func(n *node) bool { return n.available() })
}

// satisfied reports whether a matching value is good. It first tries the value that satisfied the
// prefix last, because most values with a prefix may be gone.
func (v *view) satisfied(d *Dependency, good func(n *node) bool) bool {
	if d.Key != "" {
		n, ok := v.g.Get(d.Key)
		return ok && good(n)
	}
	prefixes := d.AnyOf.prefixes()
	for _, p := range prefixes {
		if key, ok := v.provider(p); ok {
			if n, ok := v.g.Get(key); ok && good(n) && d.AnyOf.selects(key) {
				return true
			}
		}
	}
	found := false
	v.candidates(d, func(n *node) bool {
		if found = good(n); found {
			for _, p := range prefixes {
				if v.keySets != nil && strings.HasPrefix(n.key, p) {
					v.providers[p] = n.key
				}
			}
		}
		return !found
	})
	return found
}

// provider returns the key that satisfied an AnyOf with the prefix last.
func (v *view) provider(prefix string) (key string, ok bool) {
	if v.keySets != nil {
		key, ok = v.providers[prefix]
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
func (v *view) candidates(d *Dependency, visit func(n *node) bool) {
	if d.Key != "" {
		if n, ok := v.g.Get(d.Key); ok {
			visit(n)
		}
		return
	}
	more := true
	for _, p := range d.AnyOf.prefixes() {
		v.g.Ascend(p, func(key string, n *node) bool {
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
