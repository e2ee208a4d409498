package l3

import (
	"strings"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/internal/vswitch/netalloc"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// arpDescriptor handles config/vpp/v2/arp/{if}/{addr}.
func arpDescriptor(port vswitch.Neighbours, caps vswitch.Capabilities, alloc *netalloc.Resolver) kvscheduler.Descriptor[*vpp_l3.ARPEntry, descriptor.NoMeta] {
	entries := allocatedARPs(alloc)
	return descriptor.InBulk(kvscheduler.Descriptor[*vpp_l3.ARPEntry, descriptor.NoMeta]{
		Name: vswitch.ARPDescriptor,
		Keys: kvscheduler.KeySpace{Prefix: models.VPPARP.KeyPrefix()},
		NB:   true,
		Validate: func(_ string, e *vpp_l3.ARPEntry) error {
			if e.GetInterface() == "" {
				return descriptor.Invalid("interface", "an ARP entry needs its interface")
			}
			if err := validAddrOrRef("ip_address", e.GetIpAddress()); err != nil {
				return err
			}
			return descriptor.ValidMAC("phys_address", e.GetPhysAddress())
		},
		Equivalent: func(_ string, old, new *vpp_l3.ARPEntry) bool {
			return old.GetInterface() == new.GetInterface() &&
				descriptor.SameAddrText(old.GetIpAddress(), new.GetIpAddress()) &&
				descriptor.SameMACText(old.GetPhysAddress(), new.GetPhysAddress()) &&
				old.GetStatic() == new.GetStatic()
		},
		Create:        entries.Create(port.Create),
		Delete:        entries.Delete(port.Delete),
		Retrieve:      entries.Retrieve(port.List),
		RetrieveKeys:  entries.Retrieve(port.Find),
		RetrieveAfter: []string{netalloc.Descriptor, vswitch.InterfaceDescriptor},
		Dependencies: func(_ string, e *vpp_l3.ARPEntry) []kvscheduler.Dependency {
			deps := []kvscheduler.Dependency{{Label: "interface-exists", Key: models.VPPInterfaceKey(e.GetInterface())}}
			if caps.MultipleVRFs {
				// A neighbour is in the VRF of its interface, which is final once the interface has
				// an address. In another VRF, VPP would briefly use the neighbour as the route to
				// the address, and cnat would never learn of a later route.
				address, unnumbered := models.VPPInterfaceAddressPrefix(e.GetInterface()), models.UnnumberedInterfaceKey(e.GetInterface())
				deps = append(deps, kvscheduler.Dependency{Label: "interface-has-IP", AnyOf: kvscheduler.AnyOf{
					KeyPrefixes: []string{address, unnumbered},
					KeySelector: func(key string) bool { return key == unnumbered || strings.HasPrefix(key, address) },
				}})
			}
			return append(deps, netalloc.Dependency("ip_address", e.GetIpAddress(), "")...)
		},
	}, port, entries)
}
