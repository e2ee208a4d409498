// Package vrf implements VRFs. A VRF other than 0 is a routing table of its own:
//
//	devices     that of a VRF device, where the kernel has them (devices.go)
//	emulation   one that policy rules and packet marks lead to, elsewhere (emulation_rules.go,
//	            emulation_marks.go)
//
// New asks the kernel which it is. Nothing on the host is changed, including its rule for the table
// local, before the first VRF other than 0 is requested; everything is restored with the last one. How
// devices take over from rules that an earlier version left is in upgrade.go.
package vrf
