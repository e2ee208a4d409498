package acl

import (
	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// aclDescriptor handles config/vpp/acls/v2/acl/{name}. Each interface of the list
// is a derived value that waits for the interface.
func aclDescriptor(port vswitch.ACLs) kvscheduler.Descriptor[*vpp_acl.ACL, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_acl.ACL, descriptor.NoMeta]{
		Name:       vswitch.ACLDescriptor,
		Keys:       kvscheduler.KeySpace{Prefix: models.ACL.KeyPrefix()},
		NB:         true,
		KeyLabel:   func(key string) string { return key[len(models.ACL.KeyPrefix()):] },
		Validate:   func(_ string, acl *vpp_acl.ACL) error { return validateACL(acl) },
		Equivalent: func(_ string, old, new *vpp_acl.ACL) bool { return equivalentACL(old, new) },
		Create:     descriptor.Create(port.Create),
		Update:     descriptor.Update(port.Update),
		Delete:     descriptor.Delete(port.Delete),
		// IP lists and MAC-IP lists are different objects on an interface.
		UpdateWithRecreate: func(_ string, old, new *vpp_acl.ACL, _ descriptor.NoMeta) bool {
			return vswitch.IsMACIP(old) != vswitch.IsMACIP(new)
		},
		Retrieve:      descriptor.Retrieve(port.List),
		RetrieveAfter: []string{vswitch.InterfaceDescriptor},
		DerivedValues: func(_ string, acl *vpp_acl.ACL) []kvscheduler.KeyValue {
			var derived []kvscheduler.KeyValue
			for _, name := range acl.GetInterfaces().GetIngress() {
				derived = append(derived, kvscheduler.KeyValue{Key: models.ACLInterfaceKey(acl.GetName(), name, false), Value: descriptor.Empty()})
			}
			for _, name := range acl.GetInterfaces().GetEgress() {
				derived = append(derived, kvscheduler.KeyValue{Key: models.ACLInterfaceKey(acl.GetName(), name, true), Value: descriptor.Empty()})
			}
			return derived
		},
	}
}

// equivalentACL compares the effect of lists, ignoring the notation of networks and the order of
// interfaces.
func equivalentACL(a, b *vpp_acl.ACL) bool {
	self := func(name string) string { return name }
	return a.GetName() == b.GetName() && vswitch.SameACLRules(a, b) &&
		descriptor.SameParts(a.GetInterfaces().GetIngress(), b.GetInterfaces().GetIngress(), self) &&
		descriptor.SameParts(a.GetInterfaces().GetEgress(), b.GetInterfaces().GetEgress(), self)
}

func validateACL(acl *vpp_acl.ACL) error {
	if err := descriptor.ValidName("name", acl.GetName()); err != nil {
		return err
	}
	if _, err := vswitch.ACLRules(acl); err != nil {
		return descriptor.Invalid("rules", "%w", err)
	}
	for field, names := range map[string][]string{
		"interfaces.ingress": acl.GetInterfaces().GetIngress(), "interfaces.egress": acl.GetInterfaces().GetEgress(),
	} {
		seen := map[string]bool{}
		for _, name := range names {
			switch {
			case name == "":
				return descriptor.Invalid(field, "an interface has no name")
			case seen[name]:
				return descriptor.Invalid(field, "interface %q is listed twice", name)
			}
			seen[name] = true
		}
	}
	if vswitch.IsMACIP(acl) && len(acl.GetInterfaces().GetEgress()) > 0 {
		return descriptor.Invalid("interfaces.egress", "MAC-IP rules are about senders of packets that enter: use ingress")
	}
	return nil
}
