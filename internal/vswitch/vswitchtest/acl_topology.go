package vswitchtest

import (
	"errors"
	"fmt"

	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	"github.com/contiv/contiv/internal/vswitch"
)

// accessLists isolates the pods of a node: pods may connect to any address, and pods and nodes may
// connect to them. The first pod must use its own MAC address.
func (t Topology) accessLists() []*vpp_acl.ACL {
	reflection, table := list("reflection", "", reflect(everything())), list("table", "",
		permit(from("10.1.0.0/16")), permit(from("192.168.30.0/24")), deny(everything()))
	for pod := 1; pod <= t.Pods; pod++ {
		reflection.Interfaces.Ingress = append(reflection.Interfaces.Ingress, t.Tap(pod))
		table.Interfaces.Egress = append(table.Interfaces.Egress, t.Tap(pod))
	}
	macs := list("macs", t.Tap(1)+" in", &aclRule{Action: vpp_acl.ACL_Rule_PERMIT, MacipRule: &vpp_acl.ACL_Rule_MacIpRule{
		SourceMacAddress: fmt.Sprintf("02:FE:00:00:%02x:00", t.Node), SourceMacAddressMask: "ff:ff:ff:ff:ff:00",
	}})
	return []*vpp_acl.ACL{reflection, table, macs}
}

func bindings(acl *vpp_acl.ACL) (list []vswitch.ACLBinding) {
	for _, iface := range acl.GetInterfaces().GetIngress() {
		list = append(list, vswitch.ACLBinding{ACL: acl.GetName(), Interface: iface})
	}
	for _, iface := range acl.GetInterfaces().GetEgress() {
		list = append(list, vswitch.ACLBinding{ACL: acl.GetName(), Interface: iface, Egress: true})
	}
	return list
}

func (p port) createACL(acl *vpp_acl.ACL) error {
	err := p.vs.ACLs().Create(p.t.Context(), acl)
	for _, b := range bindings(acl) {
		err = errors.Join(err, p.vs.ACLs().Bind(p.t.Context(), b))
	}
	return err
}

func (p port) deleteACL(acl *vpp_acl.ACL) (err error) {
	for _, b := range bindings(acl) {
		err = errors.Join(err, p.vs.ACLs().Unbind(p.t.Context(), b))
	}
	return errors.Join(err, p.vs.ACLs().Delete(p.t.Context(), acl))
}
