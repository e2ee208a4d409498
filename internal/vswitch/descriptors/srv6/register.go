package srv6

import (
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
)

// Register registers the descriptors of segment routing.
func Register(r *descriptor.Registrar, port vswitch.SRv6) {
	descriptor.Register(r, localSIDDescriptor(port.LocalSIDs()))
	descriptor.Register(r, srPolicyDescriptor(port.Policies()))
	descriptor.Register(r, srSteeringDescriptor(port.Steerings()))
	descriptor.Register(r, srv6GlobalDescriptor(port.Globals()))
}
