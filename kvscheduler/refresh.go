package kvscheduler

import (
	"slices"
	"sort"
	"strings"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"google.golang.org/protobuf/proto"
)

// refresh reads values from the southbound and merges them into the graph.
type refresh struct {
	x *exec
	// requested values of the transaction that are not in the graph yet, sorted by key.
	requested []KeyValue
	// lost and gained are the keys of values that became unavailable or available.
	lost, gained []string
}

func (r *refresh) readAll() {
	for _, h := range r.x.reg.ordered {
		if h.retrieve == nil {
			continue
		}
		var nodes []*node
		r.x.g.Ascend(h.keys.Prefix, func(key string, n *node) bool {
			if n.base() == "" && (n.desc == h || n.desc == nil && h.owns(key)) {
				nodes = append(nodes, n)
			}
			return true
		})
		c := call{h: h, name: "Retrieve", run: callRetrieve, items: r.expected(h, nodes)}
		r.read(&c, nodes, nil)
	}
}

// readKeys reads only the values with the given base keys.
func (r *refresh) readKeys(keys []string) {
	slices.Sort(keys)
	keys = slices.Compact(keys)
	byHandler := map[*handler][]*node{}
	for _, key := range keys {
		if n := r.x.get(key); n != nil && n.base() == "" && n.desc != nil && n.desc.retrieveKeys != nil {
			byHandler[n.desc] = append(byHandler[n.desc], n)
		}
	}
	for _, h := range r.x.reg.ordered {
		if nodes := byHandler[h]; len(nodes) > 0 {
			c := call{h: h, name: "RetrieveKeys", run: callRetrieveKeys, items: r.expected(h, nodes)}
			r.read(&c, nodes, func(key string) bool { _, found := slices.BinarySearch(keys, key); return found })
		}
	}
}

// expected returns the argument of Retrieve: the known and the wanted values of the descriptor, without
// the invalid ones.
func (r *refresh) expected(h *handler, nodes []*node) []item {
	wanted := r.requested
	if len(wanted) > 0 {
		from := sort.Search(len(wanted), func(i int) bool { return wanted[i].Key >= h.keys.Prefix })
		wanted = wanted[from:]
	}
	items := make([]item, 0, len(nodes))
	for _, n := range nodes {
		for len(wanted) > 0 && wanted[0].Key < n.key {
			items = appendWanted(items, h, wanted[0])
			wanted = wanted[1:]
		}
		v, want := n.have, n.want
		if len(wanted) > 0 && wanted[0].Key == n.key {
			if wanted[0].Value != nil {
				want = wanted[0].Value
			}
			wanted = wanted[1:]
		}
		if v == nil && h.valid(n.key, want) {
			v = want
		}
		if v != nil {
			items = append(items, item{n.key, v, n.meta(), n.origin()})
		}
	}
	for len(wanted) > 0 && strings.HasPrefix(wanted[0].Key, h.keys.Prefix) {
		items = appendWanted(items, h, wanted[0])
		wanted = wanted[1:]
	}
	return items
}

func appendWanted(items []item, h *handler, kv KeyValue) []item {
	if !h.owns(kv.Key) || !h.valid(kv.Key, kv.Value) {
		return items
	}
	return append(items, item{Key: kv.Key, Value: kv.Value, Origin: FromNB})
}

// read executes the call and merges its result with the nodes, which are sorted by key. only, if not
// nil, selects the keys to merge.
func (r *refresh) read(c *call, nodes []*node, only func(key string) bool) {
	caller := r.x.caller
	if caller == nil {
		caller = r.x.reader
	} else if c.h.stage != nil {
		_ = r.x.commit(c.h.stage) // failures are recorded with their values
	}
	caller.last = 0 // the call may not be executed
	err := caller.do(c)
	r.x.recordRetrieve(c, nodes, only != nil, err)
	if err != nil {
		if err = r.readWithoutBad(caller, c, err); err != nil {
			r.reportUnread(c.h, nodes, only != nil, err)
			return
		}
		r.x.recordRetrieve(c, nodes, only != nil, nil)
	}
	items := sortedByKey(c.outItems)
	for i := range items {
		it := &items[i]
		if i > 0 && it.Key == items[i-1].Key {
			r.x.log.Warn("retrieved value ignored: key returned twice", "key", it.Key, "descriptor", c.h.name)
			continue
		}
		for len(nodes) > 0 && nodes[0].key < it.Key {
			r.markMissing(nodes[0])
			nodes = nodes[1:]
		}
		var n *node
		if len(nodes) > 0 && nodes[0].key == it.Key {
			n, nodes = nodes[0], nodes[1:]
		}
		if n == nil {
			if only != nil && !only(it.Key) {
				continue
			}
			if !c.h.owns(it.Key) || r.x.get(it.Key) != nil {
				r.x.log.Warn("retrieved value ignored: not a base value of this descriptor", "key", it.Key, "descriptor", c.h.name)
				continue
			}
		}
		if n == nil || n.have == nil || r.x.unreadable[it.Key] == nil {
			r.addFound(c.h, n, it)
		}
	}
	for _, n := range nodes {
		r.markMissing(n)
	}
}

// sortedByKey sorts the items by key, stably. It sorts small indexes and moves each item once.
func sortedByKey(items []item) []item {
	if slices.IsSortedFunc(items, func(a, b item) int { return strings.Compare(a.Key, b.Key) }) {
		return items
	}
	type place struct {
		key string
		at  int
	}
	places := make([]place, len(items))
	for i := range items {
		places[i] = place{items[i].Key, i}
	}
	slices.SortFunc(places, func(a, b place) int {
		if c := strings.Compare(a.key, b.key); c != 0 {
			return c
		}
		return a.at - b.at
	})
	sorted := make([]item, len(items))
	for i, p := range places {
		sorted[i] = items[p.at]
	}
	return sorted
}

// addFound records that the value exists. n is its node, or nil.
func (r *refresh) addFound(h *handler, n *node, it *item) {
	x := r.x
	switch {
	case n == nil:
		n = x.add(it.Key)
		n.desc = h
		if r.originOf(it) == FromSB {
			n.set(fromSB)
			n.want = it.Value
			n.setState(pb.ValueState_OBTAINED)
		} else {
			n.setState(pb.ValueState_DISCOVERED)
		}
		n.have = it.Value
		n.setMeta(it.Metadata)
		if !n.is(fromSB) {
			x.setDepsOfExisting(n)
		}
		x.storeMetadata(n)
		r.gained = append(r.gained, n.key)
	default:
		same := n.have != nil && (n.have == it.Value || proto.Equal(n.have, it.Value))
		sameMeta := h.sameMetadata(n.meta(), it.Metadata)
		if !same || !sameMeta || n.is(unknown) || n.desc == nil {
			before := n.available()
			n = x.mutable(n)
			n.desc = h
			n.clear(unknown)
			if n.State() == pb.ValueState_INVALID && n.is(broken) { // nothing is left to repair
				n.clear(broken)
				x.cycleCache.invalidateNotReady()
				x.recheckLater(n.key)
			}
			if !sameMeta {
				n.setMeta(it.Metadata)
				x.storeMetadata(n)
			}
			if !same {
				n.have = it.Value
				n.set(drifted)
				if n.is(fromSB) {
					n.want = it.Value
					n.clear(drifted)
				} else if n.want == nil || n.is(invalid) { // the existing version stays or is deleted, with its own dependencies
					x.setDepsOfExisting(n)
					x.recheckLater(n.key)
				}
				switch n.State() {
				case pb.ValueState_PENDING, pb.ValueState_MISSING, pb.ValueState_REMOVED:
					n.setState(pb.ValueState_DISCOVERED)
					n.setInfo(nil)
				}
			}
			if n.is(fromSB) && hasFailed(n) { // a revert failed to release it, but it is unchanged
				n.clear(broken)
				n.setInfo(nil)
				n.setState(pb.ValueState_OBTAINED)
			}
			if !before && n.available() {
				r.gained = append(r.gained, n.key)
			}
		}
	}
	if h.derivedFn != nil {
		r.addFoundDerived(n)
	}
}

// originOf returns the origin of the item. Without an origin from the descriptor, values that the
// northbound requests or requested are FromNB.
func (r *refresh) originOf(it *item) Origin {
	if it.Origin != UnknownOrigin {
		return it.Origin
	}
	if i, ok := slices.BinarySearchFunc(r.requested, it.Key, func(kv KeyValue, key string) int { return strings.Compare(kv.Key, key) }); ok &&
		r.requested[i].Value != nil {
		return FromNB
	}
	if r.x.formerKeys.has(it.Key) {
		return FromNB
	}
	return FromSB
}

func (r *refresh) addFoundDerived(base *node) {
	x := r.x
	found, err := x.derivedOf(base.desc, base.key, base.have)
	if err != nil {
		x.log.Error("deriving values of a retrieved value failed", "key", base.key, "error", err)
		return
	}
	for _, key := range base.derived() {
		if _, ok := slices.BinarySearchFunc(found, key, func(kv KeyValue, key string) int { return strings.Compare(kv.Key, key) }); !ok {
			if n := x.get(key); n != nil {
				r.markDerivedMissing(n)
			}
		}
	}
	for _, kv := range found {
		n := x.get(kv.Key)
		if n == nil {
			n = x.add(kv.Key)
			n.setBase(base.key)
			n.desc, n.have = x.reg.find(kv.Key), kv.Value
			if base.is(fromSB) {
				n.set(fromSB)
				n.want = kv.Value
				n.setState(pb.ValueState_OBTAINED)
			} else {
				n.setState(pb.ValueState_DISCOVERED)
				x.setDepsOfExisting(n)
			}
			i, ok := slices.BinarySearch(base.derived(), kv.Key)
			if !ok {
				base = x.mutable(base)
				base.setDerived(slices.Insert(slices.Clone(base.derived()), i, kv.Key))
			}
			if !base.is(fromSB) && !base.available() {
				n.set(broken) // deleted or repaired with its base value
			}
			if n.available() {
				r.gained = append(r.gained, kv.Key)
			}
			continue
		}
		if n.have != nil && !n.is(unknown) && (n.have == kv.Value || proto.Equal(n.have, kv.Value)) {
			continue
		}
		before := n.available()
		n = x.mutable(n)
		if n.have == nil || !proto.Equal(n.have, kv.Value) {
			n.have = kv.Value
			n.set(drifted)
			if n.is(fromSB) || base.is(invalid) && n.want != nil {
				n.want = kv.Value
				n.clear(drifted)
				if !n.is(fromSB) {
					x.setDepsOfExisting(n)
				}
				if n.State() == pb.ValueState_INVALID && n.desc.valid(n.key, n.want) { // another version was invalid
					n.clear(invalid)
					n.setState(pb.ValueState_CONFIGURED)
					n.setInfo(nil)
					x.recheckLater(n.key)
				}
			} else if n.is(invalid) {
				x.setDepsOfExisting(n)
				x.recheckLater(n.key)
			}
		}
		n.clear(unknown)
		if s := n.State(); s == pb.ValueState_PENDING || s == pb.ValueState_MISSING {
			n.setState(pb.ValueState_DISCOVERED)
			n.setInfo(nil)
			if base.is(invalid) && n.want == n.have { // part of the last valid version
				n.setState(pb.ValueState_CONFIGURED)
				x.recheckLater(n.key)
			}
		}
		if !before && n.available() {
			r.gained = append(r.gained, n.key)
		}
	}
}

// markMissing records that a base value does not exist.
func (r *refresh) markMissing(n *node) {
	if n.have == nil && !n.is(unknown) || r.x.unreadable[n.key] != nil {
		return
	}
	x := r.x
	n = x.mutable(n)
	for _, key := range n.derived() {
		if d := x.get(key); d != nil {
			if d.available() {
				r.lost = append(r.lost, key)
			}
			x.drop(d)
		}
	}
	n.setDerived(nil)
	if n.available() {
		r.lost = append(r.lost, n.key)
	}
	x.dropMetadata(n)
	n.have = nil
	n.setMeta(nil)
	n.clear(unknown | drifted)
	switch {
	case n.is(fromSB) || n.State() == pb.ValueState_DISCOVERED && n.want == nil:
		x.drop(n)
	case n.want == nil:
		n.clear(broken)
		x.markRemoved(n)
	case n.State() == pb.ValueState_CONFIGURED || n.State() == pb.ValueState_DISCOVERED:
		n.setState(pb.ValueState_MISSING)
	}
}

// markDerivedMissing records that a derived value does not exist although its base value does.
func (r *refresh) markDerivedMissing(n *node) {
	if n.have == nil && !n.is(unknown) {
		return
	}
	x := r.x
	n = x.mutable(n)
	if n.available() {
		r.lost = append(r.lost, n.key)
	}
	n.have = nil
	n.clear(unknown | drifted)
	switch {
	case n.want == nil || n.is(fromSB) || x.get(n.base()) != nil && x.get(n.base()).is(invalid):
		if base := x.get(n.base()); base != nil {
			base = x.mutable(base)
			base.setDerived(slices.DeleteFunc(slices.Clone(base.derived()), func(k string) bool { return k == n.key }))
			if !base.is(fromSB) {
				base.set(drifted)
			}
		}
		x.drop(n)
	case n.State() == pb.ValueState_CONFIGURED || n.State() == pb.ValueState_DISCOVERED:
		n.setState(pb.ValueState_MISSING)
	}
}

// deleteNeedersOfLost deletes the dependents of lost values before any value is repaired. They are
// created again together with their dependencies.
func (r *refresh) deleteNeedersOfLost() {
	lost := distinct(r.lost)
	r.lost = nil
	r.x.cycleCache.reset()
	for _, key := range lost {
		if n := r.x.get(key); n == nil || !n.available() {
			_ = r.x.updateDependents(key) // failures are recorded with their values
		}
	}
}

func distinct(keys []string) []string {
	if len(keys) < 2 {
		return keys
	}
	seen := make(map[string]struct{}, len(keys))
	return slices.DeleteFunc(keys, func(key string) bool {
		_, dup := seen[key]
		seen[key] = struct{}{}
		return dup
	})
}

// createNeedersOfGained creates the values that waited for gained values.
func (r *refresh) createNeedersOfGained() {
	gained := distinct(r.gained)
	r.gained = nil
	r.x.cycleCache.reset()
	for _, key := range gained {
		if n := r.x.get(key); n != nil && n.available() {
			_ = r.x.updateDependents(key)
		}
	}
}

// readBackFailed reads the failed values. With follow, it also executes the operations
// that the result requires.
func (x *exec) readBackFailed(follow bool) {
	const enough = 16 // rounds: each failure is of another value
	for round := 0; round < enough; round++ {
		if len(x.toReadBack) == 0 && (!follow || len(x.reread.lost)+len(x.reread.gained) == 0) {
			return
		}
		keys := make([]string, 0, len(x.toReadBack))
		for key := range x.toReadBack {
			keys = append(keys, key)
		}
		clear(x.toReadBack)
		r := &x.reread
		r.x = x
		r.readKeys(keys)
		if follow {
			r.deleteNeedersOfLost()
			r.createNeedersOfGained()
		}
	}
}

// maxRecordedKeys is the maximum number of keys in the record of a Retrieve.
const maxRecordedKeys = 16

// recordRetrieve records a call that read the given nodes, or all values if keyed is false.
func (x *exec) recordRetrieve(c *call, nodes []*node, keyed bool, err error) {
	if !x.recording || x.caller == nil {
		return
	}
	r := RecordedRetrieve{Descriptor: c.h.name, After: len(x.ops), Duration: x.caller.last, Err: err}
	x.caller.last = 0
	if err == nil {
		r.Found = len(c.outItems)
	}
	if keyed {
		r.MoreKeys = max(0, len(nodes)-maxRecordedKeys)
		for _, n := range nodes[:len(nodes)-r.MoreKeys] {
			r.Keys = append(r.Keys, n.key)
		}
	}
	x.reads = append(x.reads, r)
}
