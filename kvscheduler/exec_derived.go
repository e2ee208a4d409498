package kvscheduler

import (
	"errors"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
)

// derivedOf returns the valid derived values of a base value, sorted by key.
func (x *exec) derivedOf(h *handler, key string, v proto.Message) ([]KeyValue, error) {
	kvs, err := h.derived(key, v)
	if err != nil || len(kvs) == 0 {
		return nil, err
	}
	sorted := make([]KeyValue, 0, len(kvs))
	for _, kv := range kvs {
		if isNil(kv.Value) || kv.Key == "" || kv.Key == key {
			x.log.Warn("derived value ignored: no key or no value", "key", kv.Key, "base", key)
			continue
		}
		if n := x.get(kv.Key); n != nil && n.base() != key {
			owner := n.base()
			if owner == "" {
				owner = "none (base value)"
			}
			x.log.Warn("derived value ignored: its key is in use", "key", kv.Key, "base", key, "owner", owner)
			continue
		}
		sorted = append(sorted, kv)
	}
	slices.SortStableFunc(sorted, func(a, b KeyValue) int { return strings.Compare(a.Key, b.Key) })
	return slices.CompactFunc(sorted, func(a, b KeyValue) bool { return a.Key == b.Key }), nil
}

// applyDerived makes the derived values of an existing base value equal the given ones, after
// deleteObsoleteDerived.
func (x *exec) applyDerived(base *node, derived []KeyValue) error {
	if len(derived) == 0 && len(base.derived()) == 0 {
		return nil
	}
	base.setDerived(derivedKeys(derived))
	var errs error
	for _, kv := range derived {
		if base.have == nil || base.is(deleting) || x.failedInTxn(base) {
			break // the base value was lost meanwhile
		}
		n := x.get(kv.Key)
		if n == nil {
			n = x.add(kv.Key)
			n.setBase(base.key)
			n.desc = x.reg.find(kv.Key)
		}
		p := priorOf(n)
		n = x.mutable(n)
		if x.scope.get(base.key) == applied || n.want == nil || !proto.Equal(n.want, kv.Value) {
			n.clear(invalid)
		}
		n.want = kv.Value
		x.cycleCache.invalidateNotReady()
		n.clear(fromSB)
		n.set(base.flags & fromSB)
		if err := x.reconcile(n, p); err != nil {
			errs = errors.Join(errs, err)
		}
	}
	return x.propagate(base, errs)
}

func derivedKeys(values []KeyValue) []string {
	if len(values) == 0 {
		return nil
	}
	keys := make([]string, len(values))
	for i, kv := range values {
		keys[i] = kv.Key
	}
	return keys
}

// deleteObsoleteDerived deletes the derived values of base that are not in derived, which is sorted.
// Values that do not exist are removed first, because they could be created while others are deleted.
func (x *exec) deleteObsoleteDerived(base *node, derived []KeyValue) error {
	var errs error
	for _, all := range []bool{false, true} {
		left := 0
		for _, key := range base.derived() {
			for left < len(derived) && derived[left].Key < key {
				left++
			}
			if left < len(derived) && derived[left].Key == key {
				continue
			}
			if n := x.get(key); n == nil || n.have != nil && !all {
				continue
			}
			if err := x.deleteDerived(key); err != nil {
				errs = errors.Join(errs, err)
			}
		}
	}
	return errs
}

func (x *exec) deleteDerived(key string) error {
	n := x.get(key)
	if n == nil {
		return nil
	}
	if x.abort {
		return errAborted
	}
	p := priorOf(n)
	n = x.mutable(n)
	n.want = nil
	x.cycleCache.invalidate()
	return x.delete(n, p, removing)
}
