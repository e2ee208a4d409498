// Package vpp is FD.io VPP as a vswitch, over its binary API (release 25.10).
//
//	ports ──> VSwitch ──> session ──> vppapi.Conn ──socket──> VPP
//	                        │  ^
//	                        │  └ dials again, for ever, when the connection ends
//	                        └ modules: which parts of the API this VPP has as we know it
//
// Ownership: an interface is ours if it has a tag, and the tag is its logical name.
// Bridge domains and access lists have tags as well. What has no tag of its own (routes,
// neighbours, NAT, …) is ours on the interfaces and in the tables that are ours; what VPP
// itself makes there is told apart by its source. See docs/vpp.md.
//
// What VPP lacks, because a plugin is not loaded or its messages are of another release,
// is UNIMPLEMENTED with that reason. When the connection ends, calls return an error that
// may go away; when it is there again, Watch reports that everything may have changed.
package vpp
