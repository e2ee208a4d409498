package policies

import (
	"net/netip"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
)

// values are those that were set, by the part of their names that objects have.
type values struct {
	addresses map[string]*contiv_filter.AddressSet
	endpoints map[string]*contiv_filter.EndpointSet
	lists     map[string]*accessList
	subjects  map[string]*subject
	// versions are those of all subjects that were ever set: lists and sets are for these.
	versions ipVersions
	// at are the subjects that have an address, the last one set last.
	at map[netip.Addr][]*subject

	// needed counts, for each chain and set, the values that stand for it or lead to it.
	needed map[string]int
	// idle are those that were needed until the present change.
	idle map[string]bool
}

func newValues() values {
	return values{
		addresses: map[string]*contiv_filter.AddressSet{}, endpoints: map[string]*contiv_filter.EndpointSet{}, lists: map[string]*accessList{},
		subjects: map[string]*subject{}, at: map[netip.Addr][]*subject{}, needed: map[string]int{}, idle: map[string]bool{},
	}
}

// theTable is the object that all values need, so that the table is there as long as one is.
const theTable = "forward"

// need counts objects n more times.
func (w *values) need(n int, objects ...string) {
	for _, object := range objects {
		if w.needed[object] += n; w.needed[object] <= 0 {
			delete(w.needed, object)
			w.idle[object] = true
		} else {
			delete(w.idle, object)
		}
	}
}

// widen makes sets be needed for further versions.
func (w *values) widen(to ipVersions) {
	added := ipVersions{four: to.four && !w.versions.four, six: to.six && !w.versions.six}
	w.versions = to
	for id := range w.addresses {
		w.need(+1, added.setsOf(addressSet, id)...)
	}
	for id := range w.endpoints {
		w.need(+1, added.setsOf(endpointSet, id)...)
	}
}

// setAddresses sets a value; nil: it goes.
func (w *values) setAddresses(id string, v *contiv_filter.AddressSet) {
	replace(w, w.addresses, id, v, v != nil, func(*contiv_filter.AddressSet) []string { return append(w.versions.setsOf(addressSet, id), theTable) })
}

func (w *values) setEndpoints(id string, v *contiv_filter.EndpointSet) {
	replace(w, w.endpoints, id, v, v != nil, func(*contiv_filter.EndpointSet) []string { return append(w.versions.setsOf(endpointSet, id), theTable) })
}

// setList sets a value. What it needs beyond the base is needed by the subjects that lead to it.
func (w *values) setList(id string, l *accessList) {
	replace(w, w.lists, id, l, l != nil, func(*accessList) []string { return []string{theTable} })
}

// replace puts a value in place of another, and counts the objects that they need.
func replace[V any](w *values, in map[string]V, id string, v V, exists bool, objects func(V) []string) {
	old, existed := in[id]
	if exists {
		in[id] = v
		w.need(+1, objects(v)...)
	} else {
		delete(in, id)
	}
	if existed {
		w.need(-1, objects(old)...)
	}
}
