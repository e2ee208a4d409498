// Package server runs the etcd of a Contiv cluster inside the calling process, alone or as one
// of several members.
//
//	             ┌───────────── Server ─────────────┐
//	client URLs ─┤ gRPC ─> raft (one member) ─> WAL ├─> <data dir>/member
//	             │             zap ─> slog          │   <data dir>/contiv-etcd.lock
//	             └──────────────────────────────────┘
//
// Serve runs a Server and serves snapshots and restorations on a socket in the data directory. It
// compacts and defragments the database automatically. A killed member resumes with its data
// directory.
package server
