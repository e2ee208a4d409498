package vswitch

import (
	"slices"

	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// aclDescriptor handles config/vpp/acls/v2/acl/{name}. Each interface of the list
// is a derived value that waits for the interface.
func aclDescriptor(port ACLs) kvscheduler.Descriptor[*vpp_acl.ACL, noMeta] {
	return kvscheduler.Descriptor[*vpp_acl.ACL, noMeta]{
		Name:       ACLDescriptor,
		Keys:       kvscheduler.KeySpace{Prefix: models.ACL.KeyPrefix()},
		NB:         true,
		KeyLabel:   func(key string) string { return key[len(models.ACL.KeyPrefix()):] },
		Validate:   func(_ string, acl *vpp_acl.ACL) error { return validateACL(acl) },
		Equivalent: func(_ string, old, new *vpp_acl.ACL) bool { return equivalentACL(old, new) },
		Create:     create(port.Create),
		Update:     update(port.Update),
		Delete:     remove(port.Delete),
		// Lists of IP rules and of MAC-IP rules are different things on an interface.
		UpdateWithRecreate: func(_ string, old, new *vpp_acl.ACL, _ noMeta) bool {
			return IsMACIP(old) != IsMACIP(new)
		},
		Retrieve:      retrieve(port.List),
		RetrieveAfter: []string{InterfaceDescriptor},
		DerivedValues: func(_ string, acl *vpp_acl.ACL) []kvscheduler.KeyValue {
			var derived []kvscheduler.KeyValue
			for _, name := range acl.GetInterfaces().GetIngress() {
				derived = append(derived, kvscheduler.KeyValue{Key: models.ACLInterfaceKey(acl.GetName(), name, false), Value: empty()})
			}
			for _, name := range acl.GetInterfaces().GetEgress() {
				derived = append(derived, kvscheduler.KeyValue{Key: models.ACLInterfaceKey(acl.GetName(), name, true), Value: empty()})
			}
			return derived
		},
	}
}

// equivalentACL compares what lists do: how networks are written, and the order of
// interfaces, does not matter.
func equivalentACL(a, b *vpp_acl.ACL) bool {
	self := func(name string) string { return name }
	return a.GetName() == b.GetName() && SameACLRules(a, b) &&
		sameParts(a.GetInterfaces().GetIngress(), b.GetInterfaces().GetIngress(), self) &&
		sameParts(a.GetInterfaces().GetEgress(), b.GetInterfaces().GetEgress(), self)
}

// SameACLRules reports whether two lists have the same rules.
func SameACLRules(a, b *vpp_acl.ACL) bool {
	left, errA := ACLRules(a)
	right, errB := ACLRules(b)
	return errA == nil && errB == nil && IsMACIP(a) == IsMACIP(b) && slices.Equal(left, right)
}

func validateACL(acl *vpp_acl.ACL) error {
	if err := validName("name", acl.GetName()); err != nil {
		return err
	}
	if _, err := ACLRules(acl); err != nil {
		return invalid("rules", "%w", err)
	}
	for field, names := range map[string][]string{
		"interfaces.ingress": acl.GetInterfaces().GetIngress(), "interfaces.egress": acl.GetInterfaces().GetEgress(),
	} {
		seen := map[string]bool{}
		for _, name := range names {
			switch {
			case name == "":
				return invalid(field, "an interface has no name")
			case seen[name]:
				return invalid(field, "interface %q is listed twice", name)
			}
			seen[name] = true
		}
	}
	if IsMACIP(acl) && len(acl.GetInterfaces().GetEgress()) > 0 {
		return invalid("interfaces.egress", "MAC-IP rules are about senders of packets that enter: use ingress")
	}
	return nil
}
