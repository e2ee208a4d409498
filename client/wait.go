package client

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

// Wait waits until the values of the keys and their derived values are settled: configured,
// permanently failed or removed, but not PENDING or RETRYING. It returns their statuses, sorted by
// key; use Failed to find the failed ones. Over etcd, it waits for the values in etcd at the time
// of the call.
//
// If ctx ends first, the error is an *UnsettledError with the unmet dependencies.
func (c *Client) Wait(ctx context.Context, keys ...string) ([]*Status, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	selected, err := newSelection(keys)
	if err != nil {
		return nil, err
	}
	if len(selected.keys()) < len(slices.Compact(slices.Sorted(slices.Values(keys)))) {
		return nil, fmt.Errorf("%q contains key prefixes: give complete keys", keys)
	}
	want, err := c.expected(ctx, keys)
	if err != nil {
		return nil, err
	}
	return await(ctx, c.transport, selected, func(s *Status) bool { return want.met(s) && Settled(s) })
}

// expected holds the etcd revisions that statuses must reach. Any status meets the zero value.
type expected struct {
	// revisions by key; keys without a revision have no value in etcd
	revisions map[string]int64
	// asOf is the etcd revision at which revisions was read.
	asOf int64
}

// met reports whether a status describes the expected or a later value.
func (e expected) met(s *Status) bool {
	if e.asOf == 0 {
		return true
	}
	if revision, ok := e.revisions[keyOf(s)]; ok {
		return s.GetRevision() >= revision
	}
	return s.GetRevision() == 0 || s.GetRevision() > e.asOf // not in etcd (other sources may have it), or put again
}

// await follows the statuses of single keys until done returns true for each.
func await(ctx context.Context, t transport, selected selection, done func(*Status) bool) ([]*Status, error) {
	latest := make(map[string]*Status)
	open := make(map[string]bool)
	for _, key := range selected.keys() {
		open[key] = true
		latest[key] = &Status{Value: &pb.ValueStatus{Key: key}}
	}
	var failed error
	for batch, err := range t.watch(ctx, selected, true) {
		for _, s := range batch {
			key := keyOf(s)
			latest[key], open[key] = s, true
			if done(s) {
				delete(open, key)
			}
		}
		if failed = err; err != nil || len(open) == 0 {
			break
		}
	}
	if len(open) > 0 {
		e := &UnsettledError{Err: failed}
		for _, key := range slices.Sorted(maps.Keys(open)) {
			e.Statuses = append(e.Statuses, latest[key])
		}
		return nil, e
	}
	statuses := make([]*Status, 0, len(latest))
	for _, key := range slices.Sorted(maps.Keys(latest)) {
		statuses = append(statuses, latest[key])
	}
	return statuses, nil
}

func parts(s *Status) []*pb.ValueStatus {
	return append([]*pb.ValueStatus{s.GetValue()}, s.GetDerivedValues()...)
}

// Settled reports whether the states of a value and its derived values are final.
func Settled(s *Status) bool {
	return !slices.ContainsFunc(parts(s), func(v *pb.ValueStatus) bool {
		switch v.GetState() {
		case pb.ValueState_PENDING, pb.ValueState_RETRYING, pb.ValueState_MISSING, pb.ValueState_DISCOVERED:
			return true
		}
		return false
	})
}

// Failed reports whether a value or one of its derived values has failed.
func Failed(s *Status) bool {
	return slices.ContainsFunc(parts(s), func(v *pb.ValueStatus) bool {
		return v.GetState() == pb.ValueState_UNIMPLEMENTED || isError(v.GetState())
	})
}

// isError reports whether a transaction with this resulting state has failed.
func isError(state pb.ValueState) bool {
	return state == pb.ValueState_FAILED || state == pb.ValueState_INVALID || state == pb.ValueState_RETRYING
}

// Explain describes the worst state of a value and its derived values, with its dependencies or
// error.
func Explain(s *Status) string {
	worst := s.GetValue()
	if worst.GetState() == pb.ValueState_CONFIGURED {
		for _, v := range s.GetDerivedValues() {
			if v.GetState() != pb.ValueState_CONFIGURED && (v.GetState() != pb.ValueState_PENDING || worst == s.GetValue()) {
				worst = v
			}
		}
	}
	text := worst.GetState().String()
	if worst != s.GetValue() {
		text += " in " + worst.GetKey()
	}
	switch {
	case worst.GetState() == pb.ValueState_PENDING:
		reasons := s.GetWaitsFor()
		if len(reasons) == 0 {
			reasons = worst.GetDetails()
		}
		if len(reasons) > 0 {
			text += ", waits for " + strings.Join(reasons, ", ")
		}
	case worst.GetError() != "":
		text += ": " + worst.GetError()
	}
	return text
}
