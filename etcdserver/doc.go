// Package etcdserver runs the etcd that a Contiv cluster meets in, inside the
// process that calls it: one member, or one of several, data kept on disk, defaults that need no
// thinking.
//
//	             ┌───────────── Server ─────────────┐
//	client URLs ─┤ gRPC ─> raft (one member) ─> WAL ├─> <data dir>/member
//	             │             zap ─> slog          │   <data dir>/contiv-etcd.lock
//	             └──────────────────────────────────┘
//
// Serve runs a Server whose data can be saved and restored while it runs, by a socket in the
// data directory. Space that is not needed is given back by itself.
//
// A member that was killed finds its data again when it is started with the same
// data directory.
package etcdserver
