// Package vswitchtest is the conformance suite of vswitch drivers. Run tests a driver against the
// contract of package vswitch:
//
//	Run ─┬─ port       each call: repeated, after a restart, undone; foreign objects
//	     ├─ scheduler  real engine, real descriptors: resync twice, restart, drift
//	     └─ packets    real hosts exchange real packets (if the Site carries them)
//
// A driver provides a Site, the environment of its vswitch that survives a restart of the agent.
// topology.go contains all values that the suite configures there.
package vswitchtest
