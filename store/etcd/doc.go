// Package etcd is the store in etcd.
//
//	Watch(prefix…) ──> one etcd watch per prefix ──forward──┐
//	followConnection ──connection lost──> supervise ────────┴──> one channel, ended by an error
//
// The client of etcd reconnects silently, with watches that continue where they
// were. For us that is too silent: an etcd that lost its data answers such a
// watch with nothing, for ever. So a watch ends with the connection that it was
// made on, and the watcher lists again.
package etcd
