// Package target selects agents by flags, a file or etcd, and asks them concurrently.
//
//	Options ──> Selected ──> Ask ──> an Answer of each, in the order of the agents
package target
