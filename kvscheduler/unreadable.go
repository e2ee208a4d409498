package kvscheduler

import (
	"errors"
	"fmt"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

// A value that makes Retrieve fail must fail alone. Retrieve gets the expected values, and may fail
// because one of them cannot be opened, resolved or rendered. After an error:
//
//  1. Read without expected values. If that fails, too, the southbound cannot be read: the values of
//     the descriptor keep their assumed state.
//  2. Read with all expected values. If that succeeds, the failure was transient.
//  3. Otherwise, bisect the expected values to find the ones that fail.
//  4. Read without them, and use the result.
//
// The values found in step 3 are unreadable for the rest of the transaction: their next operation
// fails with the error. A callback that exceeded its deadline is not called again.

// readWithoutBad repeats a call that failed with err without the values that cause the failure. It
// returns an error if the call still fails.
func (r *refresh) readWithoutBad(caller *caller, c *call, err error) error {
	p, all := probe{caller: caller, call: c, until: time.Now().Add(caller.timeout)}, c.items
	if errors.Is(err, ErrDeadline) || len(all) == 0 || p.read(nil) != nil {
		return err
	}
	if err = p.read(all); err == nil {
		return nil
	}
	good := p.good(all, err)
	if again := p.read(good); again != nil {
		return fmt.Errorf("%w; without %d of %d values: %w", err, len(p.bad), len(all), again)
	}
	for _, bad := range p.bad {
		r.markUnreadable(c, bad.key, bad.err)
	}
	return nil
}

// probe finds the values that make a call fail.
type probe struct {
	caller *caller
	call   *call
	until  time.Time // end of the search
	bad    []badItem
}

type badItem struct {
	key string
	err error
}

func (p *probe) read(items []item) error {
	p.call.items, p.call.outItems, p.call.err = items, nil, nil
	p.caller.last = 0
	return p.caller.do(p.call)
}

// good returns the items that can be read, given that reading all of them failed with err.
func (p *probe) good(items []item, err error) []item {
	if len(items) == 1 || errors.Is(err, ErrDeadline) || time.Now().After(p.until) {
		for i := range items {
			p.bad = append(p.bad, badItem{items[i].Key, err})
		}
		return nil
	}
	var good []item
	half := len(items) / 2
	for _, part := range [][]item{items[:half], items[half:]} {
		if err := p.read(part); err != nil {
			part = p.good(part, err)
		}
		good = append(good, part...)
	}
	return good
}

func (r *refresh) markUnreadable(c *call, key string, err error) {
	x := r.x
	err = fmt.Errorf("cannot be read back: %w", err)
	x.log.Error("reading back a value failed", "key", key, "descriptor", c.h.name, "error", err)
	if x.unreadable == nil {
		x.unreadable = map[string]error{}
	}
	x.unreadable[key] = err
	if n := x.get(key); n != nil && n.have != nil {
		x.mutable(n).set(unknown)
	}
}

// reportUnread adds the error of a read of the given nodes, or of all values of the descriptor.
func (r *refresh) reportUnread(h *handler, nodes []*node, keyed bool, err error) {
	x := r.x
	if !keyed {
		x.errs = append(x.errs, &KeyError{Key: h.keys.Prefix, Err: fmt.Errorf("reading the southbound failed: %w", err)})
		x.log.Error("reading the southbound failed", "descriptor", h.name, "error", err)
		return
	}
	for _, n := range nodes {
		if x.unreadable[n.key] == nil {
			x.errs = append(x.errs, &KeyError{Key: n.key, Err: fmt.Errorf("reading the southbound failed: %w", err)})
			x.log.Error("reading the southbound failed", "descriptor", h.name, "key", n.key, "error", err)
		}
	}
}

func (x *exec) failIfUnreadable(n *node, p prior, op pb.TxnOperation) (failed bool, err error) {
	if err := x.unreadable[n.baseKey()]; err != nil && n.base() == "" && !n.is(fromSB) {
		return true, x.markFailed(n, p, op, err, false)
	}
	return false, nil
}

// readUnknown reads the values again that could not be read back after they failed.
func (x *exec) readUnknown(values []KeyValue) {
	var keys []string
	for _, kv := range values {
		if n := x.get(kv.Key); n != nil && n.is(unknown) {
			keys = append(keys, kv.Key)
		}
	}
	if len(keys) > 0 {
		r := refresh{x: x}
		r.readKeys(keys)
		r.deleteNeedersOfLost()
		r.createNeedersOfGained()
	}
}
