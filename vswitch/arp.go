package vswitch

import (
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/netalloc"
)

// arpDescriptor handles config/vpp/v2/arp/{if}/{addr}.
func arpDescriptor(port Neighbours, alloc *netalloc.Resolver) kvscheduler.Descriptor[*vpp_l3.ARPEntry, noMeta] {
	entries := allocatedARPs(alloc)
	return inBulk(kvscheduler.Descriptor[*vpp_l3.ARPEntry, noMeta]{
		Name: ARPDescriptor,
		Keys: kvscheduler.KeySpace{Prefix: models.VPPARP.KeyPrefix()},
		NB:   true,
		Validate: func(_ string, e *vpp_l3.ARPEntry) error {
			if e.GetInterface() == "" {
				return invalid("interface", "an ARP entry needs its interface")
			}
			if err := validAddrOrRef("ip_address", e.GetIpAddress()); err != nil {
				return err
			}
			return validMAC("phys_address", e.GetPhysAddress())
		},
		Equivalent: func(_ string, old, new *vpp_l3.ARPEntry) bool {
			return old.GetInterface() == new.GetInterface() &&
				sameAddrText(old.GetIpAddress(), new.GetIpAddress()) &&
				sameMACText(old.GetPhysAddress(), new.GetPhysAddress()) &&
				old.GetStatic() == new.GetStatic()
		},
		Create:        entries.create(port.Create),
		Delete:        entries.remove(port.Delete),
		Retrieve:      entries.retrieve(port.List),
		RetrieveKeys:  entries.retrieve(port.Find),
		RetrieveAfter: []string{netalloc.Descriptor, InterfaceDescriptor},
		Dependencies: func(_ string, e *vpp_l3.ARPEntry) []kvscheduler.Dependency {
			deps := []kvscheduler.Dependency{{Label: "interface-exists", Key: models.VPPInterfaceKey(e.GetInterface())}}
			return append(deps, netalloc.Dependency("ip_address", e.GetIpAddress(), "")...)
		},
	}, port, entries)
}
