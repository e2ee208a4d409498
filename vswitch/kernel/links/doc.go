// Package links makes the devices of interfaces, with their addresses, their DHCP
// clients and what they learn from router advertisements.
//
//	TAP, loopback        veth pairs (veth.go, farend.go)
//	tunnels, bonds, …    a device of a kind of its own each (kinds.go)
//	VXLAN                one device for all tunnels of a source and VNI (vxlan.go)
//	DPDK, AF_PACKET      devices that exist, taken into use
//
// The kernel removes dependent objects on its own: the routes of a device that goes down, the
// neighbours of one whose MAC address changes. After a change by the driver that has such an
// effect, restore.go asks the subsystems that own these objects to create them again.
package links
