package vswitch

import (
	"context"

	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
)

// ACLs are the access lists, by name. On each interface, and for each direction, the
// IP lists bound to it are one sequence of rules, in the order of the lists' names:
// the first rule that matches a packet decides, and if none does and there is a list,
// the packet is dropped. Lists decide on all IPv4 and IPv6 packets, whether bridged
// or routed, from and to the node itself included, but not on IPv6 neighbour
// discovery (which IP lists let pass) and on other protocols, such as ARP. MAC-IP
// lists are a sequence of their own; an entering packet has to pass both. Packets
// enter before any address is translated to another destination, and leave before
// they are given another source.
//
// REFLECT permits, and the answers to who opened a connection pass the interface in
// the other direction, whatever the lists there say, until the connection ends or a
// later packet of it meets a rule of another kind.
//
// Changes of rules count for the next packet, also of connections that exist. All
// changes are atomic: each packet meets the rules before or those after.
//
// VPP does not tell who opened a connection, and MAC-IP lists there decide on senders
// of ARP, too; see docs/vpp.md.
type ACLs interface {
	// Create makes the list, bound to no interface; one that exists gets the rules.
	Create(ctx context.Context, acl *vpp_acl.ACL) error
	// Update replaces the rules. Interfaces are bound by calls of their own.
	Update(ctx context.Context, old, new *vpp_acl.ACL) error
	// Delete removes the list, also from interfaces.
	Delete(ctx context.Context, acl *vpp_acl.ACL) error
	// List returns all lists with the interfaces that they are bound to in working
	// order. The rules of a list that is not, or is not expected, are not those of
	// any valid value.
	List(ctx context.Context, expected []*vpp_acl.ACL) ([]*vpp_acl.ACL, error)

	// Bind makes an existing list count for an existing interface.
	Bind(ctx context.Context, b ACLBinding) error
	// Unbind ends that.
	Unbind(ctx context.Context, b ACLBinding) error
}

// ACLBinding is an access list on an interface.
type ACLBinding struct {
	ACL, Interface string
	// Egress: for packets that the vswitch sends; else, those it receives.
	Egress bool
}
