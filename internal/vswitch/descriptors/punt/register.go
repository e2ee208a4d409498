package punt

import (
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
)

// Register registers the descriptors of packets that others get.
func Register(r *descriptor.Registrar, vs vswitch.VSwitch) {
	descriptor.RegisterValues(r, vs, vs.STNRules(), stnDescriptor())
	descriptor.RegisterValues(r, vs, vs.PuntsToHost(), puntToHostDescriptor())
	descriptor.RegisterValues(r, vs, vs.PuntExceptions(), puntExceptionDescriptor())
	descriptor.RegisterValues(r, vs, vs.IPRedirects(), ipRedirectDescriptor())
}
