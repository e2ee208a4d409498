package vswitch

import (
	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
)

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
