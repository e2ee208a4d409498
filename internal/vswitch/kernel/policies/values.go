package policies

import (
	"net/netip"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
)

type values struct {
	addresses map[string]*contiv_filter.AddressSet
	endpoints map[string]*contiv_filter.EndpointSet
	lists     map[string]*accessList
	subjects  map[string]*subject
	// versions holds the IP versions of all subjects so far; lists and sets cover these.
	versions ipVersions
	at       map[netip.Addr][]*subject

	needed map[string]int
	// idle holds the objects that the current change made unneeded.
	idle map[string]bool
}

func newValues() values {
	return values{
		addresses: map[string]*contiv_filter.AddressSet{}, endpoints: map[string]*contiv_filter.EndpointSet{}, lists: map[string]*accessList{},
		subjects: map[string]*subject{}, at: map[netip.Addr][]*subject{}, needed: map[string]int{}, idle: map[string]bool{},
	}
}

// theTable is an object that all values need, so the table exists as long as a value does.
const theTable = "forward"

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

// widen adds IP versions to the needed sets.
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

func (w *values) setAddresses(id string, v *contiv_filter.AddressSet) {
	replace(w, w.addresses, id, v, v != nil, func(*contiv_filter.AddressSet) []string { return append(w.versions.setsOf(addressSet, id), theTable) })
}

func (w *values) setEndpoints(id string, v *contiv_filter.EndpointSet) {
	replace(w, w.endpoints, id, v, v != nil, func(*contiv_filter.EndpointSet) []string { return append(w.versions.setsOf(endpointSet, id), theTable) })
}

// setList sets a value. Its subjects need its objects, other than the base.
func (w *values) setList(id string, l *accessList) {
	replace(w, w.lists, id, l, l != nil, func(*accessList) []string { return []string{theTable} })
}

// replace replaces a value, and counts the objects that both need.
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
