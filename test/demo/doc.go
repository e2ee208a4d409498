// Package demo demonstrates Contiv in a lab with measured facts: pods on two nodes communicate,
// drift is repaired, and packets flow while an agent is killed.
//
//	Run: up ─> nodes ─> pods ─> matrix ─> wiring ─> drift ─> kill ─> CNI ADD ─> down
//	               │
//	               └─ each an item: prints its result and fails if it differs from
//	                  the promises of Contiv; the remaining items still run
//
// The demo always removes the lab: at the end, when the context ends, and when an item panics.
package demo
