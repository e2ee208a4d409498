// Package vpp is FD.io VPP as a vswitch, over its binary API (release 25.10). It is the wiring
// only: Open makes the subsystems, one package each, and connects them; ports.go says which of
// them implements which port of vswitch.
//
//	                       vswitch.go, ports.go
//	                               │
//	┌──────────┬────────┬──────────┼────────────┬────────┬────────┬────────────┐
//	interfaces l2       routes     neighbours   nat      acl      srv6         punt  …   subsystems: none sees another
//	dhcp       span     vrf        proxyarp     cnat     abf                   stn
//	stats               l3xc       teib                                        wireguard
//	└──────────┴────────┴──────────┼────────────┴────────┴────────┴────────────┘
//	     subsystem (their contract, events)   fibpath, hostdev
//	     ownership (names, tags, indexes)     convert
//	     session   (the way to VPP)
//	     vppapi    (one connection) ──socket──> VPP, or vpptest
//
// What VPP lacks, because a plugin is not loaded or its messages are of another release, is
// UNIMPLEMENTED with that reason. When the connection ends, calls return an error that may go
// away; when it is there again, Watch reports that everything may have changed. See
// docs/vpp.md.
//
// Where does new code go? What speaks a plugin's messages goes into that plugin's package. If
// it needs something of another package, it says so by an interface of its own, and Open hands
// it in. What several subsystems need, and what knows no plugin, goes below them.
package vpp
