// Package punt contains the descriptors for packets that the vswitch hands to processes, to the
// host's stack or to a neighbour.
package punt
