// Package l3 has the descriptors of VRFs, routes, neighbours, proxies for ARP and DHCP,
// L3 cross-connects and peers of multipoint tunnels.
package l3
