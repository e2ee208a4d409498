// Package vswitchtest is the conformance suite of vswitch drivers. Run checks a
// driver against what package vswitch promises, from the outside:
//
//	Run ─┬─ port       each call: repeated, after a restart, undone; foreign objects
//	     ├─ scheduler  real engine, real descriptors: resync twice, restart, drift
//	     └─ packets    real hosts exchange real packets (if the Site carries them)
//
// A driver brings a Site: the place where its vswitch lives and survives a
// restart of the agent. All that the suite wants there is in topology.go.
package vswitchtest
