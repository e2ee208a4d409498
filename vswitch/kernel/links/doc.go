// Package links makes the devices of interfaces, with their addresses, their DHCP
// clients and what they learn from router advertisements.
//
//	TAP, loopback        veth pairs (veth.go, farend.go)
//	tunnels, bonds, …    a device of a kind of its own each (kinds.go)
//	VXLAN                one device for all tunnels of a source and VNI (vxlan.go)
//	DPDK, AF_PACKET      devices that exist, taken into use
//
// The kernel takes things away together: the routes of a device that goes down, the
// neighbours of one whose MAC changes. After the driver has done such a thing itself,
// restore.go has what is still configured made again, by those whose it is.
package links
