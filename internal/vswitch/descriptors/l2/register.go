package l2

import (
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
)

// Register registers the descriptors of bridge domains, cross-connects and mirrors.
func Register(r *descriptor.Registrar, vs vswitch.VSwitch) {
	descriptor.Register(r, bridgeDomainDescriptor(vs.Bridges()))
	descriptor.Register(r, bdInterfaceDescriptor(vs.Bridges()))
	descriptor.Register(r, fibDescriptor(vs.FIB()))
	descriptor.Register(r, xconnectDescriptor(vs.XConnects()))
	descriptor.Register(r, spanDescriptor(vs.Spans()))
}
