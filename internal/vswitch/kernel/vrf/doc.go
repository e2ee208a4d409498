// Package vrf implements VRFs other than 0 by VRF devices. VRF 5:
//
//	cvrf5        a device of the kind vrf with table 121000005; its alias says for which IP
//	             versions the table exists: contiv:vpp-vrf[v4,v6]/5
//	c-tap1       is a port of it; the kernel keeps its addresses and their routes in the table
//	table        unreachable default of the lowest preference, for destinations without a route
//
// and two policy rules per IP version for all VRFs:
//
//	90           lookup [l3mdev-table]
//	100          lookup local                     moved from preference 0
//
// The table local comes after the tables of VRFs, as in the kernel's own VRF tests. Otherwise
// packets in a VRF would end at the node if VRF 0 has their destination. With the first VRF device
// of a network namespace, the kernel adds a rule at 1000. It stays, for foreign VRF devices. Our
// rule precedes it, so that foreign rules between 100 and 1000 still follow the table local.
//
// A route of type INTER_VRF leads to the VRF device, which looks the packet up in its table. Into
// VRF 0, which has no device, it is a throw route: the rules after ours lead to VRF 0.
//
// A VRF device exists while its VRF has a table or wanted interfaces.
//
// Kernels without VRF devices have VRF 0 only. The host, including its rule for the table local, is
// unchanged before the first VRF other than 0 and restored after the last one.
package vrf
