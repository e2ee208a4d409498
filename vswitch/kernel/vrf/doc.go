// Package vrf implements VRFs. A VRF other than 0 is a separate routing table:
//
//	devices     of a VRF device, if the kernel supports them (devices.go)
//	emulation   selected by policy rules and packet marks, otherwise (emulation_rules.go,
//	            emulation_marks.go)
//
// New detects which one applies. The host, including its rule for the table local, is unchanged
// before the first VRF other than 0 and restored after the last one. upgrade.go describes the
// migration from rules of an earlier version to devices.
package vrf
