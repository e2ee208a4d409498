package vpptest

import (
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/af_xdp"
	interfaces "go.fd.io/govpp/binapi/interface"
)

type afXDP struct{}

func handleAFXDP() {
	on(func(c *call, req *af_xdp.AfXdpCreateV3, reply *af_xdp.AfXdpCreateV3Reply) api.VPPApiError {
		reply.SwIfIndex = noIndex
		if !c.server.devices[req.HostIf] {
			return api.INVALID_INTERFACE
		}
		i := c.addInterface(&swInterface{prefix: req.Name, kind: afXDP{}, SwInterfaceDetails: interfaces.SwInterfaceDetails{
			InterfaceName: req.Name, InterfaceDevType: "AF_XDP interface", L2Address: c.ifs.randomMAC(), Flags: linkUp,
		}})
		reply.SwIfIndex = i.SwIfIndex
		return 0
	})
	on(func(c *call, req *af_xdp.AfXdpDelete, _ *af_xdp.AfXdpDeleteReply) (code api.VPPApiError) {
		code = api.INVALID_INTERFACE
		c.ifs.all(func(i *swInterface) {
			if _, ok := i.kind.(afXDP); ok && i.SwIfIndex == req.SwIfIndex {
				c.deleteInterface(i)
				code = 0
			}
		})
		return code
	})
}
