package peers

import (
	"cmp"
	"slices"
)

// maxAll is the largest number of other nodes that a node probes completely.
const maxAll = 16

// Choose returns the nodes that the node with the ID self probes: all if they are few, otherwise
// the nodes at the distances 1, 2, 4, … on the ring of all nodes in ID order. So each node probes
// about log2 of the cluster's size nodes, is probed by as many, and any two nodes are connected by
// probed paths.
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
