// Package vswitch is the port to the vswitch, which forwards packets. The descriptors of the vpp.*
// models on top of it are in package descriptors.
//
//	KVScheduler ──callbacks──> descriptors ──port──> driver ──> Linux kernel, VPP, …
//	     ^                                             │
//	     └────────ReportDrift(reason, keys)──── Watch ─┘
//
// The semantics of a model (key, validation, dependencies, derived values, changes that need
// re-creation) are the same for every vswitch. A driver provides the implementation: it implements
// VSwitch (ports.go). All drivers promise:
//
//   - Repeating a call is harmless. Create of what exists as requested, and
//     Delete of what does not exist, succeed. Create after a Create that failed
//     in the middle completes it.
//   - A call succeeds or returns an error that names the operation and
//     the object. Incomplete objects are possible after an error, and only
//     then; List shows them, so that a resync can remove them.
//   - List reads the vswitch, not the driver's memory, and recognises what an
//     earlier process created. It returns only what Contiv made, plus existing
//     devices that were expected. Objects of others are never returned, changed
//     or deleted.
//   - An unsupported request is an error that wraps
//     kvscheduler.ErrUnsupported and gives the reason. All other errors, but
//     ErrNamespaceGone, may go away when the call is repeated.
//   - Calls that change one object are not made concurrently; everything else
//     may be.
//   - Values are read only, whether passed in or returned.
//
// The conformance suite in vswitchtest checks these promises for every driver.
package vswitch
