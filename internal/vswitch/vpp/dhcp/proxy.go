package dhcp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/dhcp"
	"go.fd.io/govpp/binapi/ip_types"
)

var dhcpProxyModule = session.NewModule("dhcp_plugin.so", "DHCP proxies",
	&dhcp.DHCPProxyConfig{}, &dhcp.DHCPProxyConfigReply{}, &dhcp.DHCPProxyDump{}, &dhcp.DHCPProxyDetails{},
)

// Proxies are VPP's DHCP proxies, one per IP version and VRF. All are ours, because nothing else
// configures them in this VPP.
type Proxies struct {
	subsystem.Base
	vpp *session.Session
}

func NewProxies(vpp *session.Session) *Proxies {
	return &Proxies{Base: subsystem.Base{Uses: []*session.Module{dhcpProxyModule}}, vpp: vpp}
}

// dhcpProxy is a proxy as VPP reports it.
type dhcpProxy struct {
	ipv6    bool
	vrf     uint32
	source  netip.Addr
	servers []dhcpServer
}

type dhcpServer struct {
	vrf  uint32
	addr netip.Addr
}

// addressOfVersion returns an address that VPP always reports as IPv4, with the bytes of the real
// version.
func addressOfVersion(a ip_types.Address, ipv6 bool) netip.Addr {
	if ipv6 {
		return netip.AddrFrom16(a.Un.GetIP6())
	}
	return netip.AddrFrom4(a.Un.GetIP4())
}

func (v *Proxies) read(ctx context.Context) (list []dhcpProxy, err error) {
	for _, ipv6 := range []bool{false, true} {
		all, err := session.Dump[dhcp.DHCPProxyDetails](ctx, v.vpp, dhcpProxyModule, &dhcp.DHCPProxyDump{IsIP6: ipv6})
		if err != nil {
			return nil, err
		}
		for _, d := range all {
			p := dhcpProxy{ipv6: ipv6, vrf: d.RxVrfID, source: addressOfVersion(d.DHCPSrcAddress, ipv6)}
			for _, s := range d.Servers {
				p.servers = append(p.servers, dhcpServer{s.ServerVrfID, addressOfVersion(s.DHCPServer, ipv6)})
			}
			list = append(list, p)
		}
	}
	return list, nil
}

func parseDHCPProxy(value *vpp_l3.DHCPProxy) (p dhcpProxy, err error) {
	if p.source, err = convert.ParseAddr(value.GetSourceIpAddress()); err != nil {
		return p, err
	}
	p.ipv6, p.vrf = p.source.Is6(), value.GetRxVrfId()
	for _, s := range value.GetServers() {
		addr, err := convert.ParseAddr(s.GetIpAddress())
		if err != nil {
			return p, err
		}
		if server := (dhcpServer{s.GetVrfId(), addr}); !slices.Contains(p.servers, server) {
			p.servers = append(p.servers, server)
		}
	}
	return p, nil
}

func (p dhcpProxy) request(s dhcpServer, add bool) api.Message {
	return &dhcp.DHCPProxyConfig{
		RxVrfID: p.vrf, ServerVrfID: s.vrf, IsAdd: add, DHCPServer: convert.Address(s.addr), DHCPSrcAddress: convert.Address(p.source),
	}
}

func (v *Proxies) Create(ctx context.Context, value *vpp_l3.DHCPProxy) error {
	if err := v.set(ctx, value, true); err != nil {
		return fmt.Errorf("making a DHCP proxy for VRF %d: %w", value.GetRxVrfId(), err)
	}
	return nil
}

func (v *Proxies) Delete(ctx context.Context, value *vpp_l3.DHCPProxy) error {
	if err := v.set(ctx, value, false); err != nil {
		return fmt.Errorf("deleting the DHCP proxy for VRF %d: %w", value.GetRxVrfId(), err)
	}
	return nil
}

// set adds servers before it removes others, because a proxy loses its source with its last server.
func (v *Proxies) set(ctx context.Context, value *vpp_l3.DHCPProxy, exists bool) error {
	want, err := parseDHCPProxy(value)
	if err != nil {
		return err
	}
	all, err := v.read(ctx)
	if err != nil {
		return err
	}
	now := want
	now.servers = nil
	if i := slices.IndexFunc(all, func(p dhcpProxy) bool { return p.ipv6 == want.ipv6 && p.vrf == want.vrf }); i >= 0 {
		now = all[i]
	}
	if !exists {
		want.servers = nil
	}
	anew := now.source != want.source
	var add, remove []api.Message
	for _, s := range want.servers {
		if anew || !slices.Contains(now.servers, s) {
			add = append(add, want.request(s, true))
		}
	}
	for _, s := range now.servers {
		if anew || !slices.Contains(want.servers, s) {
			remove = append(remove, now.request(s, false))
		}
	}
	steps := slices.Concat(add, remove)
	if anew {
		steps = slices.Concat(remove, add)
	}
	_, errs := session.CallAll[dhcp.DHCPProxyConfigReply](ctx, v.vpp, dhcpProxyModule, steps)
	return errors.Join(errs...)
}

func (v *Proxies) List(ctx context.Context, _ []*vpp_l3.DHCPProxy) ([]*vpp_l3.DHCPProxy, error) {
	all, err := v.read(ctx)
	if err != nil {
		return nil, session.IgnoreUnsupported("listing DHCP proxies", err)
	}
	list := make([]*vpp_l3.DHCPProxy, 0, len(all))
	for _, p := range all {
		value := &vpp_l3.DHCPProxy{SourceIpAddress: p.source.String(), RxVrfId: p.vrf}
		for _, s := range p.servers {
			value.Servers = append(value.Servers, &vpp_l3.DHCPProxy_DHCPServer{VrfId: s.vrf, IpAddress: s.addr.String()})
		}
		list = append(list, value)
	}
	return list, nil
}
