package acl

import (
	"github.com/contiv/contiv/api/contiv/guard"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
)

// Register registers the descriptors of this package.
func Register(r *descriptor.Registrar, vs vswitch.VSwitch) {
	descriptor.Register(r, aclDescriptor(vs.ACLs()))
	descriptor.Register(r, aclInterfaceDescriptor(vs.ACLs()))
	abfs := vs.ABFs()
	descriptor.RegisterIf(r, vs, abfs != nil, abfDescriptor(abfs))
	if abfs != nil {
		descriptor.Register(r, abfInterfaceDescriptor(abfs))
	}
	descriptor.RegisterValues[*guard.SourceGuard](r, vs, vs.SourceGuards(), sourceGuardDescriptor())
	descriptor.RegisterValues(r, vs, vs.SourceRanges(), sourceRangesDescriptor())
	registerFilter(r, vs.Filter())
}
