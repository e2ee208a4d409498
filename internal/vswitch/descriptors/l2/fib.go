package l2

import (
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// fibDescriptor handles config/vpp/l2/v2/fib/{bd}/mac/{mac}.
func fibDescriptor(port vswitch.FIB) kvscheduler.Descriptor[*vpp_l2.FIBEntry, descriptor.NoMeta] {
	return descriptor.InBulk(kvscheduler.Descriptor[*vpp_l2.FIBEntry, descriptor.NoMeta]{
		Name:     vswitch.FIBDescriptor,
		Keys:     kvscheduler.KeySpace{Prefix: models.L2FIB.KeyPrefix()},
		NB:       true,
		Validate: func(_ string, e *vpp_l2.FIBEntry) error { return validateFIB(e) },
		Equivalent: func(_ string, old, new *vpp_l2.FIBEntry) bool {
			return old.GetBridgeDomain() == new.GetBridgeDomain() &&
				descriptor.SameMACText(old.GetPhysAddress(), new.GetPhysAddress()) &&
				old.GetAction() == new.GetAction() &&
				old.GetOutgoingInterface() == new.GetOutgoingInterface() &&
				old.GetStaticConfig() == new.GetStaticConfig() &&
				old.GetBridgedVirtualInterface() == new.GetBridgedVirtualInterface()
		},
		Create:        descriptor.Create(port.Create),
		Delete:        descriptor.Delete(port.Delete),
		Retrieve:      descriptor.Retrieve(port.List),
		RetrieveAfter: []string{vswitch.InterfaceDescriptor, vswitch.BridgeDomainDescriptor},
		Dependencies: func(_ string, e *vpp_l2.FIBEntry) []kvscheduler.Dependency {
			if e.GetAction() == vpp_l2.FIBEntry_DROP {
				return []kvscheduler.Dependency{{Label: "bridge-domain", Key: models.BridgeDomain.KeyPrefix() + e.GetBridgeDomain()}}
			}
			return []kvscheduler.Dependency{{
				Label: "bridged-interface", Key: models.BDInterfaceKey(e.GetBridgeDomain(), e.GetOutgoingInterface()),
			}}
		},
	}, port, descriptor.Unallocated[*vpp_l2.FIBEntry]())
}

func validateFIB(e *vpp_l2.FIBEntry) error {
	if err := descriptor.ValidMAC("phys_address", e.GetPhysAddress()); err != nil {
		return err
	}
	switch {
	case e.GetBridgeDomain() == "":
		return descriptor.Invalid("bridge_domain", "an L2 FIB entry needs its bridge domain")
	case e.GetAction() == vpp_l2.FIBEntry_FORWARD && e.GetOutgoingInterface() == "":
		return descriptor.Invalid("outgoing_interface", "an L2 FIB entry that forwards needs its outgoing interface")
	}
	return nil
}
