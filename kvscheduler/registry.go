package kvscheduler

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"google.golang.org/protobuf/proto"
)

// registry is an immutable set of descriptors.
type registry struct {
	byName  map[string]*handler
	ordered []*handler // in the order of Retrieve
	spaces  []*handler // sorted by key prefix
}

// Register adds a descriptor, and configures the values that were requested before. It returns an
// error that names both descriptors if their names, key spaces or stages conflict.
func Register[V proto.Message, M any](s *Scheduler, d Descriptor[V, M]) error {
	h, err := newHandler(d)
	if err != nil {
		return err
	}
	s.registerMu.Lock()
	defer s.registerMu.Unlock()
	next, err := s.registry.Load().with(h)
	if err != nil {
		return err
	}
	s.registry.Store(next)
	s.queue.push(&job{typ: RetryUnimplOps, unimplemented: h})
	return nil
}

// with returns the registry with h added, or an error if h conflicts with another descriptor.
func (r *registry) with(h *handler) (*registry, error) {
	next := &registry{byName: make(map[string]*handler, len(r.byName)+1)}
	for name, o := range r.byName {
		if name == h.name {
			return nil, fmt.Errorf("descriptor %s is already registered (for keys %q, now for %q)", name, o.keys.Prefix, h.keys.Prefix)
		}
		if key, overlap := overlapping(o, h); overlap {
			return nil, fmt.Errorf("key spaces of descriptors %s (%q) and %s (%q) overlap: both claim %q",
				o.name, o.keys.Prefix, h.name, h.keys.Prefix, key)
		}
		if st := o.stage; st != nil && h.stage != nil {
			switch {
			case st.def == h.stage.def:
				h.stage = st
			case st.def.Name == h.stage.def.Name:
				return nil, fmt.Errorf("descriptors %s and %s have different stages with the name %s", o.name, h.name, st.def.Name)
			}
		}
		next.byName[name] = o
	}
	next.byName[h.name] = h
	var err error
	if next.ordered, err = retrieveOrder(next.byName); err != nil {
		return nil, err
	}
	next.spaces = slices.Clone(next.ordered)
	sort.SliceStable(next.spaces, func(i, j int) bool { return next.spaces[i].keys.Prefix < next.spaces[j].keys.Prefix })
	return next, nil
}

// overlapping returns a key that both descriptors claim.
func overlapping(a, b *handler) (string, bool) {
	if len(a.keys.Prefix) > len(b.keys.Prefix) {
		a, b = b, a
	}
	if !strings.HasPrefix(b.keys.Prefix, a.keys.Prefix) {
		return "", false
	}
	// All keys of b have the prefix of a.
	for _, key := range []string{a.keys.Example, b.keys.Example, b.keys.Prefix} {
		if key != "" && a.owns(key) && b.owns(key) {
			return key, true
		}
	}
	if a.keys.Match == nil {
		return b.keys.Prefix + "…", true
	}
	return "", false
}

func (r *registry) find(key string) *handler {
	// Visit the descriptors with a prefix of key, longest first. The last space not greater
	// than q either has such a prefix, or bounds its length.
	for q := key; ; {
		i := sort.Search(len(r.spaces), func(i int) bool { return r.spaces[i].keys.Prefix > q }) - 1
		if i < 0 {
			return nil
		}
		p := r.spaces[i].keys.Prefix
		n := 0
		for n < len(p) && n < len(key) && p[n] == key[n] {
			n++
		}
		if n == len(p) {
			for ; i >= 0 && r.spaces[i].keys.Prefix == p; i-- {
				if m := r.spaces[i].keys.Match; m == nil || m(key) {
					return r.spaces[i]
				}
			}
			if n == 0 {
				return nil
			}
			n--
		}
		q = key[:n]
	}
}

// retrieveOrder sorts the descriptors so that each follows the ones in its RetrieveAfter, and
// otherwise by name. It ignores unknown names, and returns an error for a cycle.
func retrieveOrder(byName map[string]*handler) ([]*handler, error) {
	names := make([]string, 0, len(byName))
	for name := range byName {
		names = append(names, name)
	}
	sort.Strings(names)
	const visiting, done = 1, 2
	state := map[string]int{}
	var order []*handler
	var path []string
	var visit func(name string) error
	visit = func(name string) error {
		h := byName[name]
		if h == nil || state[name] == done {
			return nil
		}
		path = append(path, name)
		defer func() { path = path[:len(path)-1] }()
		if state[name] == visiting {
			return fmt.Errorf("RetrieveAfter is a cycle: %s", strings.Join(path[slices.Index(path, name):], " after "))
		}
		state[name] = visiting
		after := slices.Sorted(slices.Values(h.after))
		for _, a := range after {
			if err := visit(a); err != nil {
				return err
			}
		}
		state[name] = done
		order = append(order, h)
		return nil
	}
	for _, name := range names {
		if err := visit(name); err != nil {
			return nil, err
		}
	}
	return order, nil
}
