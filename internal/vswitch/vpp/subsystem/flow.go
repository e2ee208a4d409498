package subsystem

import (
	"cmp"
	"net/netip"
	"slices"
)

// Flow is one direction of traffic between two sockets.
type Flow struct {
	From, To netip.AddrPort
	TCP      bool // not UDP
}

// Compare orders flows.
func (f Flow) Compare(o Flow) int {
	switch {
	case f.TCP == o.TCP:
		return cmp.Or(f.From.Compare(o.From), f.To.Compare(o.To))
	case f.TCP:
		return 1
	}
	return -1
}

// FirstFlows returns at most n distinct flows in order. Flows that are already silent come first,
// so that each gets its turn as others move.
func FirstFlows(flows []Flow, n int, silent func(Flow) bool) []Flow {
	rank := map[Flow]int{}
	for _, f := range flows {
		if silent(f) {
			rank[f] = -1
		}
	}
	list := slices.Clone(flows)
	slices.SortFunc(list, func(a, b Flow) int { return cmp.Or(cmp.Compare(rank[a], rank[b]), a.Compare(b)) })
	list = slices.Compact(list)
	list = list[:min(len(list), n)]
	slices.SortFunc(list, Flow.Compare)
	return list
}
