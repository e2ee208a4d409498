// Package target is whom commands ask: agents, found by flags, a file or etcd, all at once.
//
//	Options ──> Selected ──> Ask ──> an Answer of each, in the order of the agents
package target
