// Package fake is a vswitch in memory. It stores the values requested through the ports of package
// vswitch, refuses invalid requests like a real one, and traces packets, so that a test can say
// "the pod reaches the other pod" instead of listing routes.
//
//	scheduler ──port──> VSwitch ─┐
//	                             ├─> Node ──TracePacket──> Trace{Hops, Verdict}
//	agent restarted ──> VSwitch ─┘    │ VXLAN, next hops
//	                                  └── Network ── other Nodes
//
// A Node is the state of a vswitch. It outlives the VSwitch that an agent holds, as a kernel
// outlives a process. Break removes objects behind the agent's back.
//
// Tests may rely on the verdicts of traces, but not on the texts of hops and reasons.
package fake
