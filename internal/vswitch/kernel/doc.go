// Package kernel implements the vswitch with the Linux kernel: netlink configures interfaces,
// bridges, routes and neighbours, nftables NAT and access lists. It works in the node's network
// namespace.
//
//	                        node's network namespace
//	 pod           ┌──────────────────────────────────────────────┐
//	eth0 ══ veth ══│ c-… TAP ──┐                                  │
//	               │           ├── routes (proto 121), permanent  │
//	               │ podGwLoop ┤   neighbours      nft "contiv"   │
//	               │           │                       │          │
//	               │           └───────────────────── eth0 (DPDK) │══ underlay
//	               │ BVI ══ veth ══ cp-… ┐                ^       │
//	               │            bridge domain (cb-…)      │       │
//	               │                     └ vxlan (cv…) ───┘       │
//	               └──────────────────────────────────────────────┘
//
// A restarted agent recognises our objects and their names:
//
//	TAP, loopback       alias "contiv:vpp/<name>" of the near end of a veth pair
//	GRE, IPIP, bond,    the same alias of the device; members of our bonds and peers of
//	sub-interface, …    our WireGuard devices are ours
//	parked far end      alias "contiv:vpp-port/<name>" (loopbacks only)
//	bridge domain       alias "contiv:vpp-bd[<parameters>]/<name>" of a bridge
//	VXLAN tunnel        an all-zero FDB entry on the device of its source and VNI,
//	                    alias "contiv:vpp-vxlan/<vni>/<source>"; addresses and VNI
//	                    identify a tunnel, and its name comes from the expected
//	                    value with the same ones
//	existing device     has its own name as logical name; ours are only
//	                    the addresses and neighbours that we marked
//	address, neighbour  protocol 121; protocol 122: address borrowed (unnumbered)
//	route               protocol 121
//	VRF table           alias "contiv:vpp-vrf[<IP versions>]/<id>" of a VRF device with table
//	                    121000000 + id
//	interface in a VRF  its device is a port of the VRF device
//	… without devices   policy rules of protocol 121, of the table and of the interface; the
//	                    routes of its addresses have protocol 125; nftables tables
//	                    "inet contiv-vrf" and "arp contiv-vrf" (package vrf)
//	L2 FIB entry        static entry on a port of one of our bridges
//	NAT                 nftables tables "ip contiv" and "ip6 contiv"
//	access list         nftables tables "inet contiv-acl" and "bridge contiv-acl"
//
// A device that an interrupted process created but did not mark yet is recognised by its device
// group. Device names serve people and cheap look-ups only (package own).
//
// This package only wires the subsystems: see New for their dependencies and Watch for the dispatch
// of kernel events.
package kernel
