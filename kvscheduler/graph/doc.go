// Package graph is a persistent (copy-on-write) set of nodes by key, with edges from dependencies to
// dependents.
//
//	nodes      hash of key ──────> node            a change touches one path
//	keys       sorted                              a key prefix is a range
//	exact      (target key, source)                source needs the key
//	prefixes   (target prefix, source)             source needs any key with the prefix
//
// Nodes are in a hash array mapped trie, keys and edges in B-trees. Copy costs O(1) and a change O(log n). A
// change does not affect earlier copies.
//
// One goroutine may change a graph, while no other one uses it except through View. Any number of
// goroutines may read a graph that does not change, and one of them may copy it. Copies and views are
// independent of the original.
package graph
