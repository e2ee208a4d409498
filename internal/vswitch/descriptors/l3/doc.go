// Package l3 contains the descriptors of VRFs, routes, neighbours, ARP and DHCP proxies, L3
// cross-connects and peers of multipoint tunnels.
package l3
