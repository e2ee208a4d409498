package l2

import (
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// bridgeDomainDescriptor handles config/vpp/l2/v2/bridge-domain/{name}. Each
// interface of the domain is a derived value that waits for the interface.
func bridgeDomainDescriptor(port vswitch.Bridges) kvscheduler.Descriptor[*vpp_l2.BridgeDomain, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_l2.BridgeDomain, descriptor.NoMeta]{
		Name:       vswitch.BridgeDomainDescriptor,
		Keys:       kvscheduler.KeySpace{Prefix: models.BridgeDomain.KeyPrefix()},
		NB:         true,
		KeyLabel:   func(key string) string { return key[len(models.BridgeDomain.KeyPrefix()):] },
		Validate:   func(_ string, bd *vpp_l2.BridgeDomain) error { return validateBridgeDomain(bd) },
		Equivalent: func(_ string, old, new *vpp_l2.BridgeDomain) bool { return equivalentBD(old, new) },
		Create:     descriptor.Create(port.Create),
		Update:     descriptor.Update(port.Update),
		Delete:     descriptor.Delete(port.Delete),
		UpdateWithRecreate: func(_ string, old, new *vpp_l2.BridgeDomain, _ descriptor.NoMeta) bool {
			return !sameParametersOfBD(old, new)
		},
		Retrieve:      descriptor.Retrieve(port.List),
		RetrieveAfter: []string{vswitch.InterfaceDescriptor},
		DerivedValues: func(_ string, bd *vpp_l2.BridgeDomain) []kvscheduler.KeyValue {
			derived := make([]kvscheduler.KeyValue, len(bd.GetInterfaces()))
			for i, iface := range bd.GetInterfaces() {
				derived[i] = kvscheduler.KeyValue{Key: models.BDInterfaceKey(bd.GetName(), iface.GetName()), Value: iface}
			}
			return derived
		},
	}
}

func validateBridgeDomain(bd *vpp_l2.BridgeDomain) error {
	if err := descriptor.ValidName("name", bd.GetName()); err != nil {
		return err
	}
	bvi := ""
	names := map[string]bool{}
	for _, iface := range bd.GetInterfaces() {
		switch {
		case iface.GetName() == "":
			return descriptor.Invalid("interfaces", "an interface of the bridge domain has no name")
		case names[iface.GetName()]:
			return descriptor.Invalid("interfaces", "interface %q is listed twice", iface.GetName())
		case iface.GetBridgedVirtualInterface() && bvi != "":
			return descriptor.Invalid("interfaces", "%q and %q are both bridged virtual interfaces: a bridge domain has at most one", bvi, iface.GetName())
		case iface.GetBridgedVirtualInterface():
			bvi = iface.GetName()
		}
		names[iface.GetName()] = true
	}
	for _, entry := range bd.GetArpTerminationTable() {
		if err := descriptor.ValidAddr("arp_termination_table", entry.GetIpAddress()); err != nil {
			return err
		}
		if err := descriptor.ValidMAC("arp_termination_table", entry.GetPhysAddress()); err != nil {
			return err
		}
	}
	return nil
}
