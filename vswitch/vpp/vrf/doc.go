// Package vrf is VPP's FIB tables and how they hash flows: the port vswitch.VRFs.
package vrf
