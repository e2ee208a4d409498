// Package kernel makes the Linux kernel a vswitch: netlink for interfaces,
// bridges, routes and neighbours, nftables for NAT. It works in one network
// namespace, that of the node.
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
// How a restarted agent recognises what is ours, and under which name:
//
//	TAP, loopback       alias "contiv:vpp/<name>" of the near end of a veth pair
//	GRE, IPIP, bond,    the same alias of the device; members of our bonds and peers of
//	sub-interface, …    our WireGuard devices are ours
//	parked far end      alias "contiv:vpp-port/<name>" (loopbacks only)
//	bridge domain       alias "contiv:vpp-bd[<parameters>]/<name>" of a bridge
//	VXLAN tunnel        an all-zero FDB entry on the device of its source and VNI,
//	                    alias "contiv:vpp-vxlan/<vni>/<source>"; a tunnel is what
//	                    its addresses and VNI say, its name is taken from the
//	                    expected value with the same ones
//	existing device     has its own name as logical name; ours are only
//	                    the addresses and neighbours that we marked
//	address, neighbour  protocol 121; protocol 122: address borrowed (unnumbered)
//	route               protocol 121
//	VRF table           alias "contiv:vpp-vrf[<IP versions>]/<id>" of a VRF device with table
//	                    121000000 + id
//	interface in a VRF  its device is in that one
//	… without devices   policy rules of protocol 121, of the table and of the interface; the
//	                    routes of its addresses have protocol 125; nftables tables
//	                    "inet contiv-vrf" and "arp contiv-vrf" (package vrf)
//	L2 FIB entry        static entry on a port of one of our bridges
//	NAT                 nftables tables "ip contiv" and "ip6 contiv"
//	access list         nftables tables "inet contiv-acl" and "bridge contiv-acl"
//
// A device that an interrupted process created but did not mark yet is recognised by its device
// group. Device names are for readers and for cheap look-ups; nothing depends on them (package
// own).
//
// This package is the wiring only: New shows what each subsystem is given, and Watch how kernel
// events reach the subsystems.
package kernel
