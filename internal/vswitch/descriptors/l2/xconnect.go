package l2

import (
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// xconnectDescriptor handles config/vpp/l2/v2/xconnect/{rx}.
func xconnectDescriptor(port vswitch.Values[*vpp_l2.XConnectPair]) kvscheduler.Descriptor[*vpp_l2.XConnectPair, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_l2.XConnectPair, descriptor.NoMeta]{
		Name: vswitch.XConnectDescriptor,
		Keys: kvscheduler.KeySpace{Prefix: models.XConnect.KeyPrefix()},
		NB:   true,
		Validate: func(_ string, x *vpp_l2.XConnectPair) error {
			switch {
			case x.GetReceiveInterface() == "":
				return descriptor.Invalid("receive_interface", "a cross-connect needs the interface that it receives from")
			case x.GetTransmitInterface() == "":
				return descriptor.Invalid("transmit_interface", "a cross-connect needs the interface that it transmits to")
			case x.GetTransmitInterface() == x.GetReceiveInterface():
				return descriptor.Invalid("transmit_interface", "interface %q is connected to itself: name another one", x.GetTransmitInterface())
			}
			return nil
		},
		Create:        descriptor.Create(port.Create),
		Delete:        descriptor.Delete(port.Delete),
		Retrieve:      descriptor.Retrieve(port.List),
		RetrieveAfter: []string{vswitch.InterfaceDescriptor},
		Dependencies: func(_ string, x *vpp_l2.XConnectPair) []kvscheduler.Dependency {
			return []kvscheduler.Dependency{
				{Label: "rx-interface", Key: models.VPPInterfaceKey(x.GetReceiveInterface())},
				{Label: "tx-interface", Key: models.VPPInterfaceKey(x.GetTransmitInterface())},
			}
		},
	}
}
