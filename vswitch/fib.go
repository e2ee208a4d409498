package vswitch

import (
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// fibDescriptor handles config/vpp/l2/v2/fib/{bd}/mac/{mac}.
func fibDescriptor(port FIB) kvscheduler.Descriptor[*vpp_l2.FIBEntry, noMeta] {
	return inBulk(kvscheduler.Descriptor[*vpp_l2.FIBEntry, noMeta]{
		Name:     FIBDescriptor,
		Keys:     kvscheduler.KeySpace{Prefix: models.L2FIB.KeyPrefix()},
		NB:       true,
		Validate: func(_ string, e *vpp_l2.FIBEntry) error { return validateFIB(e) },
		Equivalent: func(_ string, old, new *vpp_l2.FIBEntry) bool {
			return old.GetBridgeDomain() == new.GetBridgeDomain() &&
				sameMACText(old.GetPhysAddress(), new.GetPhysAddress()) &&
				old.GetAction() == new.GetAction() &&
				old.GetOutgoingInterface() == new.GetOutgoingInterface() &&
				old.GetStaticConfig() == new.GetStaticConfig() &&
				old.GetBridgedVirtualInterface() == new.GetBridgedVirtualInterface()
		},
		Create:        create(port.Create),
		Delete:        remove(port.Delete),
		Retrieve:      retrieve(port.List),
		RetrieveAfter: []string{InterfaceDescriptor, BridgeDomainDescriptor},
		Dependencies: func(_ string, e *vpp_l2.FIBEntry) []kvscheduler.Dependency {
			if e.GetAction() == vpp_l2.FIBEntry_DROP {
				return []kvscheduler.Dependency{{Label: "bridge-domain", Key: models.BridgeDomain.KeyPrefix() + e.GetBridgeDomain()}}
			}
			return []kvscheduler.Dependency{{
				Label: "bridged-interface", Key: models.BDInterfaceKey(e.GetBridgeDomain(), e.GetOutgoingInterface()),
			}}
		},
	}, port, unallocated[*vpp_l2.FIBEntry]())
}

func validateFIB(e *vpp_l2.FIBEntry) error {
	if err := validMAC("phys_address", e.GetPhysAddress()); err != nil {
		return err
	}
	switch {
	case e.GetBridgeDomain() == "":
		return invalid("bridge_domain", "an L2 FIB entry needs its bridge domain")
	case e.GetAction() == vpp_l2.FIBEntry_FORWARD && e.GetOutgoingInterface() == "":
		return invalid("outgoing_interface", "an L2 FIB entry that forwards needs its outgoing interface")
	}
	return nil
}
