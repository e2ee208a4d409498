// Package acl contains the descriptors of models that permit or deny packets and connections:
// access lists, ACL-based forwarding, source guards and filters.
package acl
