package vswitch

// Names of the descriptors of features.
const (
	XConnectDescriptor          = "vpp-xconnect"
	SpanDescriptor              = "vpp-span"
	L3XConnectDescriptor        = "vpp-l3xc"
	ProxyARPDescriptor          = "vpp-proxy-arp"
	ProxyARPInterfaceDescriptor = "vpp-proxy-arp-interface"
)

func registerFeatures(r *registrar, f Features) {
	register(r, xconnectDescriptor(f.XConnects()))
	register(r, spanDescriptor(f.Spans()))
	register(r, proxyARPDescriptor(f.ProxyARP()))
	register(r, proxyARPInterfaceDescriptor(f.ProxyARP()))
	register(r, l3xconnectDescriptor(f.L3XConnects()))
	register(r, wireGuardPeerDescriptor(f.WireGuardPeers()))
	registerExtras(r, f)
	registerLacking(r, f)
}
