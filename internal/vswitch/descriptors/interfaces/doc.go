// Package interfaces contains the descriptors of interfaces, of their assignments (addresses, VRFs,
// DHCP clients, bond members, peers, queues) and of their link states.
package interfaces
