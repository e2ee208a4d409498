package kvscheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

// View selects the values that Dump returns.
type View int

const (
	// SBView is the southbound as Retrieve reads it.
	SBView View = iota
	// NBView is the set of requested values.
	NBView
	// CachedView is the southbound as the scheduler remembers it.
	CachedView
)

// DumpFilter restricts a dump. Empty fields match everything.
type DumpFilter struct {
	Descriptor string
	KeyPrefix  string
}

// Dump returns values sorted by key. It fails if the descriptor of the filter is unknown. SBView
// waits for the transaction in progress, and returns the values of the other descriptors together
// with the error if one cannot be read.
func (s *Scheduler) Dump(ctx context.Context, view View, f DumpFilter) ([]DumpedValue, error) {
	if f.Descriptor != "" && s.registry.Load().byName[f.Descriptor] == nil {
		return nil, fmt.Errorf("unknown descriptor %q", f.Descriptor)
	}
	if view != SBView {
		return s.dumpGraph(view, f), nil
	}
	var values []DumpedValue
	var dumpErr error
	if err := s.onWorker(ctx, func() { values, dumpErr = s.dumpSouthbound(f) }); err != nil {
		return nil, err
	}
	return values, dumpErr
}

func (s *Scheduler) dumpGraph(view View, f DumpFilter) []DumpedValue {
	var values []DumpedValue
	s.view().Ascend(f.KeyPrefix, func(_ string, n *node) bool {
		name := ""
		if n.desc != nil {
			name = n.desc.name
		}
		if f.Descriptor != "" && name != f.Descriptor {
			return true
		}
		d := DumpedValue{Key: n.key, Descriptor: name, Value: n.have, Metadata: n.meta(), Origin: n.origin(), State: n.State()}
		switch view {
		case NBView:
			if n.want == nil || n.base() != "" || n.is(fromSB) {
				return true
			}
			d.Value, d.Metadata = n.want, nil
		default:
			if n.have == nil {
				return true
			}
		}
		values = append(values, d)
		return true
	})
	return values
}

// dumpSouthbound must run on the worker.
func (s *Scheduler) dumpSouthbound(f DumpFilter) ([]DumpedValue, error) {
	var values []DumpedValue
	var errs error
	x := s.newExec(&job{})
	r := refresh{x: x}
	for _, h := range x.reg.ordered {
		if h.retrieve == nil || f.Descriptor != "" && h.name != f.Descriptor ||
			!strings.HasPrefix(h.keys.Prefix, f.KeyPrefix) && !strings.HasPrefix(f.KeyPrefix, h.keys.Prefix) {
			continue
		}
		var nodes []*node
		s.graph.Ascend(h.keys.Prefix, func(_ string, n *node) bool {
			if n.base() == "" && n.desc == h {
				nodes = append(nodes, n)
			}
			return true
		})
		c := call{h: h, name: "Retrieve", run: callRetrieve, items: r.expected(h, nodes)}
		if err := s.caller.do(&c); err != nil {
			errs = errors.Join(errs, fmt.Errorf("descriptor %s: %w", h.name, err))
			continue
		}
		for _, it := range c.outItems {
			if !strings.HasPrefix(it.Key, f.KeyPrefix) {
				continue
			}
			d := DumpedValue{Key: it.Key, Descriptor: h.name, Value: it.Value, Metadata: it.Metadata, Origin: it.Origin, State: pb.ValueState_NONEXISTENT}
			if n := x.get(it.Key); n != nil {
				d.State = n.State()
				if d.Origin == UnknownOrigin {
					d.Origin = n.origin()
				}
			} else {
				d.Origin = r.originOf(&it)
			}
			values = append(values, d)
		}
	}
	slices.SortStableFunc(values, func(a, b DumpedValue) int { return strings.Compare(a.Key, b.Key) })
	return values, errs
}
