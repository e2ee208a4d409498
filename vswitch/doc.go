// Package vswitch is the port to the thing that forwards packets. The descriptors of
// the vpp.* models on top of it are in package descriptors.
//
//	KVScheduler ──callbacks──> descriptors ──port──> driver ──> Linux kernel, VPP, …
//	     ^                                             │
//	     └────────ReportDrift(reason, keys)──── Watch ─┘
//
// What a model means (its key, what is valid, what it depends on, what it
// derives, which changes need a re-creation) is the same for every vswitch. How it is
// done is the driver's business: it implements VSwitch (ports.go). What all drivers
// promise:
//
//   - Repeating a call is harmless. Create of what exists as requested, and
//     Delete of what does not exist, succeed. Create after a Create that failed
//     in the middle completes it.
//   - A call does what it says or returns an error that says what was being done
//     to which object. Half-made objects are possible after an error, and only
//     then; List shows them, so that a resync can remove them.
//   - List reads the vswitch, not the driver's memory, and recognises what an
//     earlier process created. It returns only what Contiv made, plus existing
//     devices that were expected. Objects of others are never returned, changed
//     or deleted.
//   - What the vswitch cannot do is an error that wraps
//     kvscheduler.ErrUnsupported and gives the reason. All other errors, but
//     ErrNamespaceGone, may go away when the call is repeated.
//   - Calls that change one object are not made concurrently; everything else
//     may be.
//   - Values are read only, whether passed in or returned.
//
// The conformance suite in vswitchtest checks these promises for every driver.
package vswitch
