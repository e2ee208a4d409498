// Package interfaces has the descriptors of interfaces and of their assignments: addresses, VRFs,
// DHCP clients, members of bonds, peers, queues; and of the states of their links.
package interfaces
