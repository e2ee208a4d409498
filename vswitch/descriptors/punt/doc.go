// Package punt has the descriptors for packets that the vswitch passes on: to processes, to the
// host's stack or to a neighbour.
package punt
