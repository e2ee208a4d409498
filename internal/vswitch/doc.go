// Package vswitch defines the port to the vswitch, which forwards packets. Package descriptors
// implements the vpp.* models on top of it.
//
//	KVScheduler ──callbacks──> descriptors ──port──> driver ──> Linux kernel, VPP, …
//	     ^                                             │
//	     └────────ReportDrift(reason, keys)──── Watch ─┘
//
// The semantics of a model (key, validation, dependencies, derived values, changes that need
// re-creation) are the same for every vswitch. A driver implements VSwitch (ports.go). All drivers
// promise:
//
//   - Calls are idempotent. Create of an existing value and Delete of a missing
//     one succeed. Create after a partially failed Create completes it.
//   - A call succeeds or returns an error that names the operation and
//     the object. Incomplete objects are possible after an error, and only
//     then; List shows them, so that a resync can remove them.
//   - List reads the vswitch, not the driver's memory, and recognises what an
//     earlier process created. It returns only objects made by Contiv, and
//     existing devices that were expected. Foreign objects are never returned,
//     changed or deleted.
//   - An unsupported request is an error that wraps
//     kvscheduler.ErrUnsupported and gives the reason. All other errors except
//     ErrNamespaceGone may be temporary.
//   - Calls that change the same object are not concurrent; all others may be.
//   - Arguments and results are read-only.
//
// The conformance suite in vswitchtest checks these promises for every driver.
package vswitch
