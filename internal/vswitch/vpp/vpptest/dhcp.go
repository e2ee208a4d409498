package vpptest

import (
	"net/netip"
	"slices"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/dhcp"
	"go.fd.io/govpp/binapi/ethernet_types"
	"go.fd.io/govpp/binapi/rd_cp"
)

// Lease makes the DHCP client of an interface, by tag, obtain an address, or lose it: the zero
// Prefix.
func (s *Server) Lease(tag string, addr netip.Prefix, router netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &call{server: s, state: s.state}
	s.state.ifs.all(func(i *swInterface) {
		if i.Tag != tag || i.dhcp == nil {
			return
		}
		l := &i.dhcp.Lease
		c.dropLease(i)
		if !addr.IsValid() {
			l.State = dhcp.DHCP_CLIENT_STATE_API_DISCOVER
			return
		}
		i.addrs = append(i.addrs, addr)
		l.State, l.HostAddress, l.MaskWidth, l.HostMac = dhcp.DHCP_CLIENT_STATE_API_BOUND, addressOf(addr.Addr()), uint8(addr.Bits()), i.L2Address
		l.RouterAddress = addressOf(netip.IPv4Unspecified())
		if router.IsValid() {
			l.RouterAddress = addressOf(router)
		}
		if i.dhcp.Client.WantDHCPEvent {
			c.notify(&dhcp.DHCPComplEvent{PID: i.dhcp.Client.PID, Lease: *l})
		}
	})
}

// dropLease removes the leased address.
func (c *call) dropLease(i *swInterface) {
	leased := netip.PrefixFrom(addrOf(i.dhcp.Lease.HostAddress), int(i.dhcp.Lease.MaskWidth))
	i.addrs = slices.DeleteFunc(i.addrs, func(a netip.Prefix) bool { return a == leased })
	i.dhcp.Lease = dhcp.DHCPLease{SwIfIndex: i.SwIfIndex, Hostname: i.dhcp.Client.Hostname}
}

func handleDHCP() {
	register(&dhcp.DHCPComplEvent{})
	onInterface(func(r *dhcp.DHCPClientConfig) index { return r.Client.SwIfIndex },
		func(c *call, i *swInterface, req *dhcp.DHCPClientConfig, _ *dhcp.DHCPClientConfigReply) api.VPPApiError {
			switch {
			case req.IsAdd == (i.dhcp != nil):
				return api.INVALID_VALUE
			case req.IsAdd && i.L2Address == ethernet_types.MacAddress{}:
				return c.ends("a DHCP client has no hardware address to send")
			case req.IsAdd:
				i.dhcp = &dhcp.DHCPClientDetails{Client: req.Client, Lease: dhcp.DHCPLease{SwIfIndex: i.SwIfIndex, Hostname: req.Client.Hostname}}
				c.want(&dhcp.DHCPComplEvent{}, true)
			default:
				c.dropLease(i)
				i.dhcp = nil
			}
			return 0
		})
	onDump(func(c *call, _ *dhcp.DHCPClientDump, send func(*dhcp.DHCPClientDetails)) {
		c.ifs.all(func(i *swInterface) {
			if i.dhcp != nil {
				send(i.dhcp)
			}
		})
	})
	onInterface(func(r *rd_cp.IP6NdAddressAutoconfig) index { return r.SwIfIndex },
		func(c *call, i *swInterface, req *rd_cp.IP6NdAddressAutoconfig, _ *rd_cp.IP6NdAddressAutoconfigReply) api.VPPApiError {
			return 0
		})
}
