package vpp

import (
	"context"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	interfaces_api "go.fd.io/govpp/binapi/interface"
)

var loopbackModule = newModule("", "loopbacks",
	&interfaces_api.CreateLoopback{}, &interfaces_api.CreateLoopbackReply{},
	&interfaces_api.DeleteLoopback{}, &interfaces_api.DeleteLoopbackReply{},
)

// makeLoopback: VPP chooses the MAC if there is none.
func (v interfaces) makeLoopback(ctx context.Context, iface *vpp_interfaces.Interface) (index, error) {
	mac, _ := parseMAC(iface.GetPhysAddress())
	var reply interfaces_api.CreateLoopbackReply
	err := v.call(ctx, loopbackModule, &interfaces_api.CreateLoopback{MacAddress: mac}, &reply)
	return reply.SwIfIndex, err
}

func (v interfaces) removeLoopback(ctx context.Context, i index) error {
	return v.call(ctx, loopbackModule, &interfaces_api.DeleteLoopback{SwIfIndex: i}, &interfaces_api.DeleteLoopbackReply{})
}
