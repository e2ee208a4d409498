package peers

import (
	"cmp"
	"slices"
)

// maxAll is the largest number of other nodes that a node probes completely.
const maxAll = 16

// Choose returns which of the others the node with the ID self probes: all of them if
// they are few, else those at the distances 1, 2, 4, … on the ring of all nodes in the order of
// their IDs. So each node is probed by as many as it probes itself, about log2 of the cluster's size,
// and any two nodes are connected by probed paths.
func Choose[T any](self uint32, others []T, id func(T) uint32) []T {
	ring := slices.Clone(others)
	slices.SortFunc(ring, func(a, b T) int {
		return cmp.Compare(id(a)-self-1, id(b)-self-1) // in the order of the ring, starting after self
	})
	if len(ring) <= maxAll {
		return ring
	}
	var chosen []T
	for distance := 1; distance <= len(ring); distance *= 2 {
		chosen = append(chosen, ring[distance-1])
	}
	return chosen
}
