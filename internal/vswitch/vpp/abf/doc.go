// Package abf implements vswitch.ABFs, ACL-based forwarding, with VPP's plugin abf. It gets the
// indexes of access lists (AccessLists) from package acl.
package abf
