// Package abf is forwarding by access lists, by VPP's plugin abf: the port vswitch.ABFs. It
// needs the indexes of access lists (AccessLists), which the package acl knows.
package abf
