package l3

import (
	"fmt"
	"net/netip"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// dhcpProxyDescriptor handles config/vpp/v2/dhcp-proxy/{v}/rx-vrf/{id}.
func dhcpProxyDescriptor() kvscheduler.Descriptor[*vpp_l3.DHCPProxy, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_l3.DHCPProxy, descriptor.NoMeta]{
		Name:     vswitch.DHCPProxyDescriptor,
		Keys:     kvscheduler.KeySpace{Prefix: models.DHCPProxy.KeyPrefix()},
		NB:       true,
		Validate: func(_ string, p *vpp_l3.DHCPProxy) error { return validateDHCPProxy(p) },
		Equivalent: func(_ string, a, b *vpp_l3.DHCPProxy) bool {
			return descriptor.SameAddrText(a.GetSourceIpAddress(), b.GetSourceIpAddress()) && a.GetRxVrfId() == b.GetRxVrfId() &&
				descriptor.SameParts(a.GetServers(), b.GetServers(), dhcpServerOf)
		},
		UpdateWithRecreate: descriptor.Never[*vpp_l3.DHCPProxy],
		RetrieveAfter:      []string{vswitch.VRFTableDescriptor},
		Dependencies: func(_ string, p *vpp_l3.DHCPProxy) (deps []kvscheduler.Dependency) {
			ipv6 := descriptor.IsIPv6(p.GetSourceIpAddress())
			seen := map[uint32]bool{0: true}
			if vrf := p.GetRxVrfId(); vrf != 0 {
				deps = append(deps, kvscheduler.Dependency{Label: "rx-vrf-table-exists", Key: models.VRFTableKey(vrf, ipv6)})
			}
			for _, s := range p.GetServers() {
				if vrf := s.GetVrfId(); !seen[vrf] {
					seen[vrf] = true
					deps = append(deps, kvscheduler.Dependency{
						Label: fmt.Sprintf("vrf-table-%d-used-by-dhcp-server-exists", vrf), Key: models.VRFTableKey(vrf, ipv6),
					})
				}
			}
			return deps
		},
	}
}

type dhcpServer struct {
	vrf  uint32
	addr netip.Addr
}

func dhcpServerOf(s *vpp_l3.DHCPProxy_DHCPServer) dhcpServer {
	addr, _ := netip.ParseAddr(s.GetIpAddress())
	return dhcpServer{s.GetVrfId(), addr}
}

func validateDHCPProxy(p *vpp_l3.DHCPProxy) error {
	if err := descriptor.ValidAddr("source_ip_address", p.GetSourceIpAddress()); err != nil {
		return err
	}
	if len(p.GetServers()) == 0 {
		return descriptor.Invalid("servers", "a DHCP proxy needs a server")
	}
	for _, s := range p.GetServers() {
		if err := descriptor.ValidAddrOf("servers.ip_address", s.GetIpAddress(), descriptor.IsIPv6(p.GetSourceIpAddress())); err != nil {
			return err
		}
	}
	return nil
}
