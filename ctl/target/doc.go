// Package target finds the agents that commands ask, by flags, a file or etcd, and asks them all at once.
//
//	Options ──> Selected ──> Ask ──> an Answer of each, in the order of the agents
package target
