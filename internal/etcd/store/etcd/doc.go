// Package etcd is the store in etcd.
//
//	Watch(prefix…) ──> one etcd watch per prefix ──forward──┐
//	followConnection ──connection lost──> supervise ────────┴──> one channel, ended by an error
//
// The etcd client reconnects silently and resumes its watches. After etcd lost its data, such a
// watch would never deliver anything. So here a watch ends with its connection, and the watcher
// lists again.
package etcd
