// Package faults tests failures around an agent: its database, local file, disk, clock and
// identity. Each fault happens in a lab (see test/lab) with traffic between pods on two nodes and
// to the outside. It adds a row to a report: packet loss, recovery time, and the symptoms that a
// user can see.
//
//	        node's namespace            underlay's namespace
//	agent ──dial──> nft DNAT ──────> proxy (this process) ──> etcd
//	  │                              passes, delays, hangs, refuses
//	  └── bolt.db, log ──> symlinks into an unmounted tmpfs of 1 MB, which ends
//	                       with this process
//
// go test ./test/faults -args -write writes the report to docs/design/faults.md.
//
// test/integration covers agents killed under traffic and at each moment of DEL, and damage in the
// kernel.
package faults
