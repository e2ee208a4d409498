// Package acl has the descriptors of what decides on packets and connections: access
// lists, forwarding by access lists, source guards and filters.
package acl
