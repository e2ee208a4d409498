// Package graph is the persistent set of values that the scheduler works on: nodes by key, and
// edges from dependencies to dependents.
//
//	nodes:     hash of key ──────> node            a change of a node touches nothing else
//	keys:      in their order                      so that a key prefix is a range
//	exact:     target key, source                  "source needs this key"
//	prefixes:  target prefix, source               "source needs any key with this prefix"
//
// Nodes are in a hash array mapped trie, the others in B-trees; all are copy-on-write. Copy costs
// O(1), a change O(log n), and a copy is not affected by later changes of its origin. A graph may
// be read by any number of goroutines while one of them copies it. It may be changed by one
// goroutine while no other uses it but by View, whatever others do with its copies and views.
//
// The package only knows keys; the contents of nodes are up to the caller.
package graph
