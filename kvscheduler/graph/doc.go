// Package graph is the persistent set of values that the scheduler works on:
// nodes by key, and edges from what is needed to who needs it.
//
//	nodes:     key ──────────────> node            ordered, so that a key prefix is a range
//	exact:     target key, source                  "source needs this key"
//	prefixes:  target prefix, source               "source needs any key with this prefix"
//
// Everything is a copy-on-write B-tree. Copy costs O(1), a change O(log n),
// and a copy is not affected by later changes of its origin. A copy may be read
// by any number of goroutines; a graph is changed, and copied, by its one owner.
//
// The package knows keys, not values: what a node is, is up to its user.
package graph
