package dhcp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// Lease is a lease of a server. It is immutable.
type Lease struct {
	// Address includes the prefix length.
	Address netip.Prefix
	// Routes from the server, including the default route.
	Routes []Route
	// HostName from the server; may be empty.
	HostName string
	// Server renews the lease; the zero Addr if unknown.
	Server netip.Addr
	// Renew and Rebind are the times to contact this server and any server. Expires is the end of
	// the lease. All are zero for an infinite lease.
	Renew, Rebind, Expires time.Time
}

// Route is a route of a lease.
type Route struct {
	Destination netip.Prefix
	// Gateway is the zero Addr for on-link routes.
	Gateway netip.Addr
}

var anywhere = netip.PrefixFrom(netip.IPv4Unspecified(), 0)

// Router returns the default gateway, or the zero Addr.
func (l *Lease) Router() netip.Addr {
	for _, r := range l.Routes {
		if r.Destination == anywhere {
			return r.Gateway
		}
	}
	return netip.Addr{}
}

func (l *Lease) expired(now time.Time) bool { return !l.Expires.IsZero() && !now.Before(l.Expires) }

const forever = 0xffffffff * time.Second

// leaseOf parses the answer to a request that was sent at the given time.
func leaseOf(ack *dhcpv4.DHCPv4, sent time.Time) (*Lease, error) {
	addr, ok := addrOf(ack.YourIPAddr)
	if !ok || addr.IsUnspecified() || addr.IsMulticast() || addr.IsLoopback() {
		return nil, fmt.Errorf("the server leases %v, which is no address for a host", ack.YourIPAddr)
	}
	mask := ack.SubnetMask()
	if mask == nil {
		mask = net.IP(addr.AsSlice()).DefaultMask()
	}
	bits, size := mask.Size()
	if size != addr.BitLen() || bits == 0 {
		return nil, fmt.Errorf("the server leases %v with the network mask %v, which is none", addr, mask)
	}
	l := &Lease{Address: netip.PrefixFrom(addr, bits), HostName: ack.HostName()}
	l.Server, _ = addrOf(ack.ServerIdentifier())
	l.Routes = routesOf(ack)
	return l, l.setTimes(ack, sent)
}

// setTimes sets the times; by default, renewal starts after half of the lease and rebinding after
// seven eighths.
func (l *Lease) setTimes(ack *dhcpv4.DHCPv4, sent time.Time) error {
	length := ack.IPAddressLeaseTime(0)
	switch {
	case length <= 0:
		return errors.New("the server does not say how long the lease is")
	case length >= forever:
		return nil
	}
	renew, rebind := ack.IPAddressRenewalTime(length/2), ack.IPAddressRebindingTime(length*7/8)
	if renew <= 0 || renew >= rebind || rebind >= length {
		renew, rebind = length/2, length*7/8
	}
	l.Renew, l.Rebind, l.Expires = sent.Add(renew), sent.Add(rebind), sent.Add(length)
	return nil
}

func routesOf(ack *dhcpv4.DHCPv4) []Route {
	var routes []Route
	for _, r := range ack.ClasslessStaticRoute() {
		dst, ok := addrOf(r.Dest.IP)
		if !ok {
			continue
		}
		bits, _ := r.Dest.Mask.Size()
		route := Route{Destination: netip.PrefixFrom(dst, bits).Masked()}
		if gateway, ok := addrOf(r.Router); ok && !gateway.IsUnspecified() {
			route.Gateway = gateway
		}
		routes = append(routes, route)
	}
	if len(routes) == 0 {
		for _, ip := range ack.Router() {
			if gateway, ok := addrOf(ip); ok && !gateway.IsUnspecified() {
				return []Route{{Destination: anywhere, Gateway: gateway}}
			}
		}
	}
	return routes
}

func addrOf(ip net.IP) (netip.Addr, bool) {
	addr, ok := netip.AddrFromSlice(ip)
	addr = addr.Unmap()
	return addr, ok && addr.Is4()
}

// same compares two leases without their times.
func (l *Lease) same(other *Lease) bool {
	return l != nil && other != nil && l.Address == other.Address && l.HostName == other.HostName && slices.Equal(l.Routes, other.Routes)
}
