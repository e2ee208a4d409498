package l3

import (
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/internal/vswitch/netalloc"
)

// Register registers the descriptors of routes, neighbours and VRFs.
func Register(r *descriptor.Registrar, vs vswitch.VSwitch, alloc *netalloc.Resolver) {
	descriptor.Register(r, routeDescriptor(vs.Routes(), alloc))
	descriptor.Register(r, arpDescriptor(vs.Neighbours(), vs.Capabilities(), alloc))
	descriptor.Register(r, vrfTableDescriptor(vs.VRFs()))
	descriptor.Register(r, proxyARPDescriptor(vs.ProxyARP()))
	descriptor.Register(r, proxyARPInterfaceDescriptor(vs.ProxyARP()))
	descriptor.Register(r, l3xconnectDescriptor(vs.L3XConnects()))
	descriptor.RegisterValues(r, vs, vs.IPScanNeighbors(), ipScanNeighborDescriptor())
	descriptor.RegisterValues(r, vs, vs.DHCPProxies(), dhcpProxyDescriptor())
	descriptor.RegisterValues(r, vs, vs.TEIBs(), teibDescriptor())
}
