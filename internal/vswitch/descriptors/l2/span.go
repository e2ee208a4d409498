package l2

import (
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// spanDescriptor handles config/vpp/v2/span/{from}/to/{to}.
func spanDescriptor(port vswitch.Values[*vpp_interfaces.Span]) kvscheduler.Descriptor[*vpp_interfaces.Span, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_interfaces.Span, descriptor.NoMeta]{
		Name: vswitch.SpanDescriptor,
		Keys: kvscheduler.KeySpace{Prefix: models.VPPSpan.KeyPrefix()},
		NB:   true,
		Validate: func(_ string, s *vpp_interfaces.Span) error {
			switch {
			case s.GetInterfaceFrom() == "":
				return descriptor.Invalid("interface_from", "name the source interface of the copies")
			case s.GetInterfaceTo() == "":
				return descriptor.Invalid("interface_to", "name the interface that gets the copies")
			case s.GetInterfaceTo() == s.GetInterfaceFrom():
				return descriptor.Invalid("interface_to", "interface %q cannot get copies of its own packets: name another one", s.GetInterfaceTo())
			case s.GetDirection() == vpp_interfaces.Span_UNKNOWN:
				return descriptor.Invalid("direction", "no direction: use RX, TX or BOTH")
			}
			return nil
		},
		Create:        descriptor.Create(port.Create),
		Delete:        descriptor.Delete(port.Delete),
		Retrieve:      descriptor.Retrieve(port.List),
		RetrieveAfter: []string{vswitch.InterfaceDescriptor},
		Dependencies: func(_ string, s *vpp_interfaces.Span) []kvscheduler.Dependency {
			return []kvscheduler.Dependency{
				{Label: "interface-from", Key: models.VPPInterfaceKey(s.GetInterfaceFrom())},
				{Label: "interface-to", Key: models.VPPInterfaceKey(s.GetInterfaceTo())},
			}
		},
	}
}
