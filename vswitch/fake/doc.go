// Package fake is a vswitch in memory. It keeps what the port of package vswitch
// asks for, refuses what a vswitch would refuse, and walks packets through it, so
// that a test can say "the pod reaches the other pod" instead of listing routes.
//
//	scheduler ──port──> VSwitch ─┐
//	                             ├─> Node ──TracePacket──> Trace{Hops, Verdict}
//	agent restarted ──> VSwitch ─┘    │ VXLAN, next hops
//	                                  └── Network ── other Nodes
//
// A Node is the place where a vswitch lives: it survives the VSwitch that an agent
// holds, as a kernel survives a process. Break acts the stranger who removes
// something.
//
// What others may rely on: verdicts of traces. What they may not: the texts of
// hops and reasons.
package fake
