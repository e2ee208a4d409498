package kernel

import (
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/vswitch"
	"google.golang.org/protobuf/proto"
)

func (v *VSwitch) XConnects() vswitch.Values[*vpp_l2.XConnectPair] { return xconnects{v} }
func (v *VSwitch) Spans() vswitch.Values[*vpp_interfaces.Span]     { return spans{v} }

func (v *VSwitch) L3XConnects() vswitch.Values[*vpp_l3.L3XConnect] { return l3xconnects{v} }

func (v *VSwitch) ProxyARP() vswitch.ProxyARP { return proxyARP{v} }

// interfacesOfFeature returns the interfaces that a value of a feature touches.
func interfacesOfFeature(v proto.Message) []string {
	if names := vswitch.InterfacesOfFeature(v); names != nil {
		return names
	}
	if proxy, ok := v.(*vpp_l3.ProxyARP); ok {
		var names []string
		for _, i := range proxy.GetInterfaces() {
			names = append(names, i.GetName())
		}
		return names
	}
	return interfacesOfSegment(v)
}
