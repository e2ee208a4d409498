// Package demo shows the main job of Contiv in a lab, each claim as a measured
// fact: pods on two nodes talk, drift is repaired, an agent may die while
// packets flow.
//
//	Run: up ─> nodes ─> pods ─> matrix ─> wiring ─> drift ─> kill ─> CNI ADD ─> down
//	               │
//	               └─ each an item: prints what it finds, and fails if that is
//	                  not what Contiv promises; the others are shown all the same
//
// The lab is removed in any case: at the end, when the context ends, when an
// item panics.
package demo
