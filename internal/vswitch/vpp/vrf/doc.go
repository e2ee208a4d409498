// Package vrf implements vswitch.VRFs with VPP's FIB tables and their flow hashes.
package vrf
