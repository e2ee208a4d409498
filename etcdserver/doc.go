// Package etcdserver runs the etcd that a Contiv cluster meets in, inside the
// process that calls it: one member, data kept on disk, defaults that need no
// thinking.
//
//	             ┌───────────── Server ─────────────┐
//	client URLs ─┤ gRPC ─> raft (one member) ─> WAL ├─> <data dir>/member
//	             │             zap ─> slog          │   <data dir>/contiv-etcd.lock
//	             └──────────────────────────────────┘
//
// A member that was killed finds its data again when it is started with the same
// data directory. Clusters that need more than one member run etcd's own
// server: Contiv only needs its endpoints.
package etcdserver
