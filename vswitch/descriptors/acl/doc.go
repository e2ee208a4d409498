// Package acl has the descriptors of models that permit or deny packets and connections: access
// lists, forwarding by access lists, source guards and filters.
package acl
