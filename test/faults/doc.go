// Package faults tests what breaks around an agent: its database, its local file,
// its disk, its clock, its identity. Each fault happens in a lab (see test/lab)
// with packets flowing between pods on two nodes and to the outside, and leaves a
// row in a report: what was lost, how long it took until all was well again, and
// what a user could see of it.
//
//	        node's namespace            underlay's namespace
//	agent ──dial──> nft DNAT ──────> proxy (this process) ──> etcd
//	  │                              passes, delays, hangs, refuses
//	  └── bolt.db, log ──> symlinks into a tmpfs of 1 MB that has no place in the
//	                       file system, and is gone with this process
//
// go test ./test/faults -args -write writes the report to docs/faults.md.
//
// What test/integration has is not repeated here: agents killed under traffic and
// at each moment of DEL, damage in the kernel.
package faults
