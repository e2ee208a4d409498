package kvscheduler

// unmet returns the labels of the dependencies of n that are not met; none if n
// may exist.
//
// A dependency is met when a matching value is available. The members of a
// cycle of dependencies that wait only for each other become ready together; see
// cycle, and founded for cycles that may not be.
func (x *exec) unmet(n *node) []string {
	labels := x.missing(n)
	if len(labels) > 0 && x.g.HasNeeders(n.key) {
		if c := newCycle(x, n); c.ready() {
			return nil
		}
	}
	return labels
}

// missing returns the labels of the dependencies of n that no available value
// satisfies.
func (x *exec) missing(n *node) []string {
	var labels []string
	for i := range n.deps {
		if !x.met(&n.deps[i]) {
			labels = append(labels, n.depLabel(i))
		}
	}
	return labels
}

// mayStay tells if a value that exists may go on to.
func (x *exec) mayStay(n *node) bool {
	if len(x.missing(n)) == 0 {
		return x.founded(n)
	}
	return len(x.unmet(n)) == 0
}

// depLabel is the label of a dependency, made unique by its key if need be.
func (n *node) depLabel(i int) string {
	d := &n.deps[i]
	for j := range n.deps {
		if j != i && n.deps[j].Label == d.Label {
			return d.Label + " (" + d.target() + ")"
		}
	}
	return d.Label
}

// target describes what the dependency needs.
func (d *Dependency) target() string {
	if d.Key != "" {
		return d.Key
	}
	text := "any of"
	for _, p := range d.AnyOf.prefixes() {
		text += " " + p + "*"
	}
	return text
}

// met tells if an available value satisfies the dependency.
func (x *exec) met(d *Dependency) bool {
	met := false
	x.candidates(d, func(n *node) bool {
		met = n.available()
		return !met
	})
	return met
}

// candidates visits the values that match the dependency, until visit returns
// false.
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

// selects asks the KeySelector; one that panics selects nothing.
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
