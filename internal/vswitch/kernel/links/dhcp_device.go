package links

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	"github.com/contiv/contiv/internal/netlink/rtnl"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch/kernel/dhcp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// leaseDevice is the device of an interface with a DHCP client. Leased addresses and routes have a
// separate protocol number, because they are no northbound values. The kernel expires the address.
type leaseDevice struct {
	*Driver
	iface string
}

var _ dhcp.Device = (*leaseDevice)(nil)

// leaseMetric plus the device's index is the metric of leased routes. So routes of several devices
// can coexist, and manual routes take precedence.
const leaseMetric = 1024

// lifetimeSlack is the tolerance of lifetimes, because the kernel counts whole seconds.
const lifetimeSlack = 2 * time.Second

// describe converts a lease to the northbound model; nil for nil.
func (d *leaseDevice) describe(l *dhcp.Lease) *vpp_interfaces.DHCPLease {
	if l == nil {
		return nil
	}
	lease := &vpp_interfaces.DHCPLease{InterfaceName: d.iface, HostName: l.HostName, HostIpAddress: l.Address.String()}
	if router := l.Router(); router.IsValid() {
		lease.RouterIpAddress = netip.PrefixFrom(router, l.Address.Bits()).String()
	}
	if link, err := d.Link(d.iface); err == nil {
		lease.HostPhysAddress = link.Attrs().HardwareAddr.String()
	}
	return lease
}

func (d *leaseDevice) Ready() error {
	link, err := d.Link(d.iface)
	switch {
	case err != nil:
		return err
	case link.Attrs().RawFlags&unix.IFF_UP == 0:
		return fmt.Errorf("device %s is down", link.Attrs().Name)
	case link.Attrs().RawFlags&unix.IFF_RUNNING == 0:
		return fmt.Errorf("device %s has no carrier", link.Attrs().Name)
	}
	return nil
}

func (d *leaseDevice) Served() (served bool, err error) {
	err = d.WithDevice(d.iface, func(index int) error {
		addrs, err := d.Net.Addresses(index)
		served = slices.ContainsFunc(addrs, func(a rtnl.Address) bool {
			return a.Prefix.Addr().Is4() && !a.Prefix.Addr().IsLinkLocalUnicast() &&
				a.Proto != own.ProtoOurs && a.Proto != own.ProtoBorrowed && a.Proto != own.ProtoLeased
		})
		return err
	})
	return served, err
}

func (d *leaseDevice) Leased() (lease *dhcp.Lease, err error) {
	err = d.WithDevice(d.iface, func(index int) error {
		addrs, err := d.Net.Addresses(index)
		if err != nil {
			return err
		}
		for _, a := range addrs {
			if a.Proto == own.ProtoLeased {
				lease = &dhcp.Lease{Address: a.Prefix}
				if a.Valid != 0 {
					lease.Expires = time.Now().Add(a.Valid)
				}
			}
		}
		if lease == nil {
			return nil
		}
		routes, err := d.leasedRoutes(index)
		for _, r := range routes {
			lease.Routes = append(lease.Routes, dhcp.Route{Destination: own.Destination(&r), Gateway: own.AddrOf(r.Gw)})
		}
		return err
	})
	return lease, err
}

func (d *leaseDevice) Apply(lease *dhcp.Lease) error {
	return d.WithDevice(d.iface, func(index int) error {
		return errors.Join(d.applyAddress(index, lease), d.applyRoutes(index, lease))
	})
}

func (d *leaseDevice) applyAddress(index int, lease *dhcp.Lease) error {
	addrs, err := d.Net.Addresses(index)
	if err != nil {
		return err
	}
	has, removed := false, false
	for _, a := range addrs {
		switch {
		case lease != nil && a.Prefix == lease.Address:
			has = a.Proto != own.ProtoLeased || lasts(a, lease) // foreign addresses are not adopted
		case a.Proto == own.ProtoLeased:
			if err := rtnl.IgnoreGone(d.Net.DelAddress(a)); err != nil {
				return err
			}
			removed = true
		}
	}
	if removed {
		if err := d.afterAddressRemoval(d.iface, index, netip.IPv4Unspecified()); err != nil {
			return err
		}
	}
	if lease != nil && !has {
		a := rtnl.Address{Index: index, Prefix: lease.Address, Proto: own.ProtoLeased}
		if !lease.Expires.IsZero() {
			a.Valid = max(time.Until(lease.Expires), time.Second)
		}
		if err := d.Net.ReplaceAddress(a); err != nil {
			return err
		}
	}
	if !removed && has {
		return nil
	}
	return errors.Join(d.routes.ResolveRoutes(), interfaces{d.Driver}.lend(d.iface))
}

func lasts(a rtnl.Address, lease *dhcp.Lease) bool {
	if lease.Expires.IsZero() || a.Valid == 0 {
		return lease.Expires.IsZero() && a.Valid == 0
	}
	return (a.Valid - time.Until(lease.Expires)).Abs() <= lifetimeSlack
}

func (d *leaseDevice) applyRoutes(index int, lease *dhcp.Lease) error {
	found, err := d.leasedRoutes(index)
	if err != nil {
		return err
	}
	wanted := map[dhcp.Route]bool{}
	if lease != nil {
		for _, r := range lease.Routes {
			wanted[r] = true
		}
	}
	for _, r := range found {
		key := dhcp.Route{Destination: own.Destination(&r), Gateway: own.AddrOf(r.Gw)}
		if wanted[key] && own.AddrOf(r.Src) == lease.Address.Addr() {
			delete(wanted, key)
		} else if err := rtnl.IgnoreGone(d.Net.RouteDel(&r)); err != nil {
			return fmt.Errorf("removing the leased route to %s: %w", key.Destination, err)
		}
	}
	var errs []error
	for r := range wanted {
		if err := d.Net.RouteAdd(leasedRoute(index, lease.Address, r)); err != nil && !rtnl.Exists(err) {
			errs = append(errs, fmt.Errorf("adding the leased route to %s via %s: %w", r.Destination, r.Gateway, err))
		}
	}
	return errors.Join(errs...)
}

func leasedRoute(index int, from netip.Prefix, r dhcp.Route) *netlink.Route {
	route := &netlink.Route{
		Family: unix.AF_INET, Table: unix.RT_TABLE_MAIN, Protocol: own.ProtoLeased, Type: unix.RTN_UNICAST,
		Dst:      &net.IPNet{IP: r.Destination.Addr().AsSlice(), Mask: net.CIDRMask(r.Destination.Bits(), 32)},
		Priority: leaseMetric + index, LinkIndex: index, Src: from.Addr().AsSlice(), Scope: netlink.SCOPE_LINK,
	}
	if r.Gateway.IsValid() {
		route.Scope, route.Gw = netlink.SCOPE_UNIVERSE, r.Gateway.AsSlice()
		if !from.Contains(r.Gateway) {
			route.Flags = unix.RTNH_F_ONLINK
		}
	}
	return route
}

func (d *leaseDevice) leasedRoutes(index int) ([]netlink.Route, error) {
	routes, err := rtnl.Dump(func() ([]netlink.Route, error) {
		return d.Net.RouteListFiltered(unix.AF_INET, &netlink.Route{Protocol: own.ProtoLeased, LinkIndex: index}, netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_OIF)
	})
	if err != nil {
		return nil, fmt.Errorf("reading the leased routes: %w", err)
	}
	return routes, nil
}

func (d *leaseDevice) Broadcast() (conn net.PacketConn, mac net.HardwareAddr, err error) {
	link, err := d.Link(d.iface)
	if err != nil {
		return nil, nil, err
	}
	attrs := link.Attrs()
	err = d.NS.Run(func() (err error) {
		conn, err = dhcp.ListenBroadcast(&net.Interface{Index: attrs.Index, Name: attrs.Name, MTU: attrs.MTU, HardwareAddr: attrs.HardwareAddr})
		return err
	})
	return conn, attrs.HardwareAddr, err
}

func (d *leaseDevice) Unicast(from netip.Addr) (conn net.PacketConn, err error) {
	link, err := d.Link(d.iface)
	if err != nil {
		return nil, err
	}
	err = d.NS.Run(func() (err error) {
		conn, err = dhcp.ListenUnicast(link.Attrs().Name, from)
		return err
	})
	return conn, err
}
