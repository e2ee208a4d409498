package nat

import (
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/models"
)

// Register registers the descriptors of address translation.
func Register(r *descriptor.Registrar, vs vswitch.VSwitch) {
	port := vs.NAT()
	descriptor.Register(r, natGlobalDescriptor(port))
	descriptor.Register(r, natInterfaceDescriptor(port))
	descriptor.Register(r, natPoolDescriptor(port))
	descriptor.Register(r, natGlobalInterfaceDescriptor(port))
	descriptor.Register(r, natGlobalAddressDescriptor(port))
	descriptor.Register(r, natPropertyDescriptor(vswitch.NATEndpointDependentDescriptor, models.NAT44EndpointDependentKey))
	descriptor.Register(r, natPropertyDescriptor(vswitch.NATTwicePoolDescriptor, models.NAT44TwicePoolPrefix))
	descriptor.Register(r, dnatDescriptor(port))
	descriptor.Register(r, natVRFTableDescriptor(port))
	descriptor.Register(r, natVRFRouteDescriptor(port))
	descriptor.Register(r, nat66Descriptor(vs.NAT66()))
	descriptor.Register(r, dnat66Descriptor(vs.DNAT66()))
	descriptor.Register(r, serviceNetworkDescriptor(vs.ServiceNetworks()))
}
