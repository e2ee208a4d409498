package vswitch

// Names of the descriptors of features.
const (
	XConnectDescriptor = "vpp-xconnect"
	SpanDescriptor     = "vpp-span"
)

func registerFeatures(r *registrar, f Features) {
	register(r, xconnectDescriptor(f.XConnects()))
	register(r, spanDescriptor(f.Spans()))
	registerLacking(r, f)
}
