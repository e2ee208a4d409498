// Package punt has the descriptors of packets that the vswitch hands to somebody else:
// processes, the host's stack, a neighbour.
package punt
