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

// Lease is what a server has leased. It is not changed.
type Lease struct {
	// Address with the length of its network.
	Address netip.Prefix
	// Routes that the server wants to be made; the default route is one of them.
	Routes []Route
	// HostName that the server gave; may be empty.
	HostName string
	// Server is what to renew the lease with; the zero Addr if unknown.
	Server netip.Addr
	// Renew and Rebind tell when to ask this server and when to ask any server.
	// Expires tells when the address must not be used any longer. All are zero for
	// a lease without end.
	Renew, Rebind, Expires time.Time
}

// Route leads to a network.
type Route struct {
	Destination netip.Prefix
	// Gateway is the zero Addr for what is on the link.
	Gateway netip.Addr
}

var anywhere = netip.PrefixFrom(netip.IPv4Unspecified(), 0)

// Router returns the default gateway, the zero Addr if there is none.
func (l *Lease) Router() netip.Addr {
	for _, r := range l.Routes {
		if r.Destination == anywhere {
			return r.Gateway
		}
	}
	return netip.Addr{}
}

// expired reports whether the address must not be used any longer.
func (l *Lease) expired(now time.Time) bool { return !l.Expires.IsZero() && !now.Before(l.Expires) }

// forever is the lease time that means "without end", in whole seconds.
const forever = 0xffffffff * time.Second

// leaseOf reads the answer to a request that was sent at the time given.
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

// setTimes: without other times, half of the lease is for asking the server that
// gave it, and the rest but an eighth before any server is asked.
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

// routesOf returns the routes of an answer. Classless ones take the place of the
// router (RFC 3442).
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

// same reports whether two leases are the same, whatever their times.
func (l *Lease) same(other *Lease) bool {
	return l != nil && other != nil && l.Address == other.Address && l.HostName == other.HostName && slices.Equal(l.Routes, other.Routes)
}
