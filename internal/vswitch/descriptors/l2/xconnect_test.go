package l2

import (
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	"github.com/contiv/contiv/internal/vswitch"
	"google.golang.org/protobuf/proto"
)

type noValues[V proto.Message] struct{ vswitch.Values[V] }

func TestXConnectAndSpanValidation(t *testing.T) {
	xc, sp := xconnectDescriptor(noValues[*vpp_l2.XConnectPair]{}), spanDescriptor(noValues[*vpp_interfaces.Span]{})
	for name, err := range map[string]error{
		"cross-connect without receiver":    xc.Validate("", &vpp_l2.XConnectPair{TransmitInterface: "a"}),
		"cross-connect without transmitter": xc.Validate("", &vpp_l2.XConnectPair{ReceiveInterface: "a"}),
		"cross-connect to itself":           xc.Validate("", &vpp_l2.XConnectPair{ReceiveInterface: "a", TransmitInterface: "a"}),
		"span without source":               sp.Validate("", &vpp_interfaces.Span{InterfaceTo: "a", Direction: 1}),
		"span without target":               sp.Validate("", &vpp_interfaces.Span{InterfaceFrom: "a", Direction: 1}),
		"span to itself":                    sp.Validate("", &vpp_interfaces.Span{InterfaceFrom: "a", InterfaceTo: "a", Direction: 1}),
		"span without direction":            sp.Validate("", &vpp_interfaces.Span{InterfaceFrom: "a", InterfaceTo: "b"}),
	} {
		if err == nil {
			t.Errorf("%s is valid", name)
		}
	}
	if err := xc.Validate("", &vpp_l2.XConnectPair{ReceiveInterface: "a", TransmitInterface: "b"}); err != nil {
		t.Error(err)
	}
}
