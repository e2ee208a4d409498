package interfaces

import (
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/internal/vswitch/netalloc"
	"github.com/contiv/contiv/kvscheduler"
)

// Register registers the descriptors of interfaces and of their assignments.
func Register(r *descriptor.Registrar, vs vswitch.VSwitch, alloc *netalloc.Resolver) {
	port, ms := vs.Interfaces(), microservices{r.Scheduler()}
	descriptor.Register(r, interfaceDescriptor(port, alloc, ms))
	descriptor.Register(r, addressDescriptor(port, alloc))
	descriptor.Register(r, interfaceVRFDescriptor(port))
	descriptor.Register(r, hasAddressDescriptor())
	descriptor.Register(r, unnumberedDescriptor(port))
	descriptor.Register(r, dhcpClientDescriptor(port))
	descriptor.Register(r, dhcpLeaseDescriptor(port))
	descriptor.Register(r, linkStateDescriptor(vs.States()))
	descriptor.Register(r, bondMemberDescriptor(port))
	descriptor.Register(r, ip6NDDescriptor(port))
	descriptor.Register(r, wireGuardPeerDescriptor(vs.WireGuardPeers()))
	queues := vs.RxQueues()
	descriptor.RegisterIf(r, vs, queues != nil, rxModesDescriptor(queues))
	descriptor.RegisterIf(r, vs, queues != nil, rxPlacementDescriptor(queues))
}

// Notify reports leases and link states to the scheduler. The descriptors must have been
// registered.
func Notify(s *kvscheduler.Scheduler, vs vswitch.VSwitch) {
	vs.WatchLeases(notifyLeases(s))
	vs.States().Watch(notifyLinkStates(s))
}
