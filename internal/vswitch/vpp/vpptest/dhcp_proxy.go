package vpptest

import (
	"slices"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/dhcp"
	"go.fd.io/govpp/binapi/ip_types"
)

func handleDHCPProxies() {
	on(func(c *call, req *dhcp.DHCPProxyConfig, _ *dhcp.DHCPProxyConfigReply) api.VPPApiError {
		ipv6 := req.DHCPSrcAddress.Af == ip_types.ADDRESS_IP6
		if req.DHCPSrcAddress.Af != req.DHCPServer.Af {
			return api.INVALID_ARGUMENT
		}
		at := slices.IndexFunc(c.proxies, func(p *dhcp.DHCPProxyDetails) bool { return p.IsIPv6 == ipv6 && p.RxVrfID == req.RxVrfID })
		server := dhcp.DHCPServer{ServerVrfID: req.ServerVrfID, DHCPServer: req.DHCPServer}
		if at < 0 {
			if req.IsAdd {
				c.proxies = append(c.proxies, &dhcp.DHCPProxyDetails{
					RxVrfID: req.RxVrfID, IsIPv6: ipv6, VssType: dhcp.VSS_TYPE_API_INVALID, DHCPSrcAddress: req.DHCPSrcAddress,
					Servers: []dhcp.DHCPServer{server},
				})
			}
			return 0
		}
		p := c.proxies[at]
		there := slices.Index(p.Servers, server)
		switch {
		case req.IsAdd && there < 0:
			p.Servers = append(p.Servers, server)
		case !req.IsAdd && there >= 0:
			p.Servers = slices.Delete(p.Servers, there, there+1)
		}
		if len(p.Servers) == 0 {
			c.proxies = slices.Delete(c.proxies, at, at+1)
		}
		return 0
	})
	onDump(func(c *call, req *dhcp.DHCPProxyDump, send func(*dhcp.DHCPProxyDetails)) {
		for _, p := range c.proxies {
			if p.IsIPv6 == req.IsIP6 {
				d := *p
				d.DHCPSrcAddress.Af = ip_types.ADDRESS_IP4 // VPP does not report the version
				d.Servers = slices.Clone(p.Servers)
				for i := range d.Servers {
					d.Servers[i].DHCPServer.Af = ip_types.ADDRESS_IP4
				}
				send(&d)
			}
		}
	})
}
