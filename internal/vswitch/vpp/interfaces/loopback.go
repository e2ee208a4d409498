package interfaces

import (
	"context"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	interfaces_api "go.fd.io/govpp/binapi/interface"
)

var loopbackModule = session.NewModule("", "loopbacks",
	&interfaces_api.CreateLoopback{}, &interfaces_api.CreateLoopbackReply{},
	&interfaces_api.DeleteLoopback{}, &interfaces_api.DeleteLoopbackReply{},
)

// makeLoopback creates a loopback. VPP selects the MAC if none is given.
func (v *Interfaces) makeLoopback(ctx context.Context, iface *vpp_interfaces.Interface) (ownership.Index, error) {
	mac, _ := convert.ParseMAC(iface.GetPhysAddress())
	var reply interfaces_api.CreateLoopbackReply
	err := v.vpp.Call(ctx, loopbackModule, &interfaces_api.CreateLoopback{MacAddress: mac}, &reply)
	return reply.SwIfIndex, err
}

func (v *Interfaces) removeLoopback(ctx context.Context, i ownership.Index) error {
	return v.vpp.Call(ctx, loopbackModule, &interfaces_api.DeleteLoopback{SwIfIndex: i}, &interfaces_api.DeleteLoopbackReply{})
}
