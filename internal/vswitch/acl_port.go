package vswitch

import (
	"context"

	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
)

// ACLs are the access lists, by name. The IP lists bound to an interface and direction form one
// sequence of rules, ordered by list name. The first matching rule decides. If lists are bound and
// no rule matches, the packet is dropped. Lists apply to all bridged and routed IPv4 and IPv6
// packets, including packets from and to the node, but not to IPv6 neighbour discovery (which IP
// lists permit) and other protocols, such as ARP. MAC-IP lists form a separate sequence; an
// entering packet must pass both. Lists apply before destination NAT on ingress, and before source
// NAT on egress.
//
// REFLECT permits, and replies to the opener of the connection pass the interface in the other
// direction, regardless of its lists, until the connection ends or a later packet of it matches
// another kind of rule.
//
// Changed rules apply to the next packet, also of existing connections. All changes are atomic:
// each packet is evaluated against the rules before or after.
//
// VPP does not know the opener of a connection, and its MAC-IP lists also apply to ARP senders; see
// docs/design/vpp.md.
type ACLs interface {
	// Create creates the unbound list, or replaces the rules of an existing one.
	Create(ctx context.Context, acl *vpp_acl.ACL) error
	// Update replaces the rules. Bind and Unbind change interfaces.
	Update(ctx context.Context, old, new *vpp_acl.ACL) error
	// Delete removes the list, also from interfaces.
	Delete(ctx context.Context, acl *vpp_acl.ACL) error
	// List returns all lists with the interfaces that they are correctly bound to. A damaged or
	// unexpected list is returned with an invalid rule.
	List(ctx context.Context, expected []*vpp_acl.ACL) ([]*vpp_acl.ACL, error)

	// Bind binds an existing list to an existing interface.
	Bind(ctx context.Context, b ACLBinding) error
	// Unbind reverses Bind.
	Unbind(ctx context.Context, b ACLBinding) error
}

// ACLBinding is an access list on an interface.
type ACLBinding struct {
	ACL, Interface string
	// Egress: for sent packets; otherwise for received ones.
	Egress bool
}
