package vswitch

import (
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// xconnectDescriptor handles config/vpp/l2/v2/xconnect/{rx}.
func xconnectDescriptor(port Values[*vpp_l2.XConnectPair]) kvscheduler.Descriptor[*vpp_l2.XConnectPair, noMeta] {
	return kvscheduler.Descriptor[*vpp_l2.XConnectPair, noMeta]{
		Name: XConnectDescriptor,
		Keys: kvscheduler.KeySpace{Prefix: models.XConnect.KeyPrefix()},
		NB:   true,
		Validate: func(_ string, x *vpp_l2.XConnectPair) error {
			switch {
			case x.GetReceiveInterface() == "":
				return invalid("receive_interface", "a cross-connect needs the interface that it receives from")
			case x.GetTransmitInterface() == "":
				return invalid("transmit_interface", "a cross-connect needs the interface that it transmits to")
			case x.GetTransmitInterface() == x.GetReceiveInterface():
				return invalid("transmit_interface", "interface %q is connected to itself: name another one", x.GetTransmitInterface())
			}
			return nil
		},
		Create:        create(port.Create),
		Delete:        remove(port.Delete),
		Retrieve:      retrieve(port.List),
		RetrieveAfter: []string{InterfaceDescriptor},
		Dependencies: func(_ string, x *vpp_l2.XConnectPair) []kvscheduler.Dependency {
			return []kvscheduler.Dependency{
				{Label: "rx-interface", Key: models.VPPInterfaceKey(x.GetReceiveInterface())},
				{Label: "tx-interface", Key: models.VPPInterfaceKey(x.GetTransmitInterface())},
			}
		},
	}
}
