// Package vpp implements a vswitch with FD.io VPP, over its binary API (release 25.10). It is the
// wiring only: Open creates the subsystems, one package each, and connects them; ports.go maps the
// ports of package vswitch to them.
//
//	                       vswitch.go, ports.go
//	                               │
//	┌──────────┬────────┬──────────┼────────────┬────────┬────────┬────────────┐
//	interfaces l2       routes     neighbours   nat      acl      srv6         punt  …   subsystems: none sees another
//	dhcp       span     vrf        proxyarp     cnat     abf      policies     stn
//	stats      drops    l3xc       teib                           podguard     wireguard
//	└──────────┴────────┴──────────┼────────────┴────────┴────────┴────────────┘
//	     subsystem (their contract, events)   fibpath, hostdev
//	     ownership (names, tags, indexes)     convert
//	     session   (connection across restarts)
//	     vppapi    (one connection) ──socket──> VPP, or vpptest
//
// Values that VPP does not support, because a plugin is not loaded or its messages are of another
// release, are UNIMPLEMENTED with that reason. While the connection is down, calls return a
// retriable error. After a reconnection, Watch reports that everything may have changed. See
// docs/design/vpp.md.
//
// New code that uses a plugin's messages belongs in that plugin's package. If it needs another
// subsystem, it declares a narrow interface, which Open passes in. Code that several subsystems
// need, and that uses no plugin, goes into a package below them.
package vpp
