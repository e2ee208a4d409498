package descriptors

import (
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/acl"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/internal/vswitch/descriptors/interfaces"
	"github.com/contiv/contiv/internal/vswitch/descriptors/l2"
	"github.com/contiv/contiv/internal/vswitch/descriptors/l3"
	"github.com/contiv/contiv/internal/vswitch/descriptors/nat"
	"github.com/contiv/contiv/internal/vswitch/descriptors/punt"
	"github.com/contiv/contiv/internal/vswitch/descriptors/srv6"
	"github.com/contiv/contiv/internal/vswitch/descriptors/unimplemented"
	"github.com/contiv/contiv/internal/vswitch/netalloc"
	"github.com/contiv/contiv/kvscheduler"
)

// Register registers the descriptors of the vpp.* models, working on vs.
func Register(s *kvscheduler.Scheduler, vs vswitch.VSwitch) error {
	r, alloc := descriptor.NewRegistrar(s), netalloc.NewResolver(s)
	interfaces.Register(r, vs, alloc)
	l2.Register(r, vs)
	srv6.Register(r, vs.SRv6())
	l3.Register(r, vs, alloc)
	nat.Register(r, vs)
	acl.Register(r, vs)
	punt.Register(r, vs)
	unimplemented.Register(r, vs)
	if r.Err() == nil {
		interfaces.Notify(s, vs)
	}
	return r.Err()
}
