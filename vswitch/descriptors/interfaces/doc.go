// Package interfaces has the descriptors of interfaces and of what is assigned to them:
// addresses, VRFs, DHCP clients, members of bonds, peers, queues; and of the states of
// their links.
package interfaces
