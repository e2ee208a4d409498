package interfaces

import (
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/internal/vswitch/netalloc"
	"google.golang.org/protobuf/proto"
)

// allocatedInterfaces resolves the addresses of interfaces and the microservices of TAPs. An
// address without allocation is left out: only the address waits for it.
func allocatedInterfaces(r *netalloc.Resolver, ms microservices) descriptor.Allocated[*vpp_interfaces.Interface] {
	return descriptor.Allocated[*vpp_interfaces.Interface]{
		Resolve: func(v *vpp_interfaces.Interface) (*vpp_interfaces.Interface, error) {
			v = ms.resolve(v)
			if !netalloc.HasRef(v.GetIpAddresses()...) {
				return v, nil
			}
			v = proto.CloneOf(v)
			v.IpAddresses = r.Addresses(v.GetIpAddresses(), v.GetName())
			return v, nil
		},
		Restore: func(found, resolved, wanted *vpp_interfaces.Interface) {
			found.IpAddresses = r.Restore(found.GetIpAddresses(), wanted.GetIpAddresses(), found.GetName())
			ms.restore(found, resolved, wanted)
		},
	}
}
