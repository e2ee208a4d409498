// Package links configures the devices of interfaces, their addresses, DHCP clients and router
// advertisements.
//
//	TAP, loopback        veth pairs (veth.go, farend.go)
//	tunnels, bonds, …    one device of a specific kind each (kinds.go)
//	VXLAN                one device for all tunnels of a source and VNI (vxlan.go)
//	DPDK, AF_PACKET      existing devices
//
// The kernel removes dependent objects on its own: the routes of a device that goes down, the
// neighbours of a device with a new MAC address. After such a change, restore.go asks the
// subsystems that own these objects to recreate them.
package links
