package linux

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/linux/namespaces"
	"github.com/contiv/contiv/models"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// HostLink is a network device of a node that Contiv did not make.
type HostLink struct {
	Name string
	// MTU in bytes.
	MTU int
	// Addresses of the device, with prefix lengths.
	Addresses []netip.Prefix
	// Assigned lists the Addresses that Contiv assigned. It is empty on kernels before 5.18, which
	// do not record the origin.
	Assigned []netip.Prefix
	// Leased lists the Addresses obtained by Contiv's DHCP client.
	Leased []netip.Prefix
	// Fleeting lists the Addresses that are not for long use: deprecated, temporary (RFC 8981), or duplicates.
	Fleeting []netip.Prefix
	// DefaultGateways lists the next hops of the main table's default routes through the device: at
	// most one per IP version, IPv4 first. A default route without next hop is given as the
	// unspecified address. Routes made by Contiv are left out.
	DefaultGateways []netip.Addr
	// Up reports whether the device is administratively up.
	Up bool
}

// Links returns the devices that Contiv did not make in the network namespace at a path, ordered by
// index; "" is the namespace of the calling thread. Of several default routes of one IP version
// through a device, the one with the lowest metric counts.
func Links(netNS string) ([]HostLink, error) {
	n, err := namespaces.Open(netNS, models.NetNSDir, nil)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	return hostLinks(n.Own)
}

func hostLinks(ns *namespaces.Namespace) ([]HostLink, error) {
	links, err := ns.Links()
	if err != nil {
		return nil, err
	}
	addresses, err := ns.AllAddresses()
	if err != nil {
		return nil, err
	}
	host := make([]HostLink, 0, len(links))
	at := map[int]*HostLink{}
	for _, l := range links {
		attrs := l.Attrs()
		if strings.HasPrefix(attrs.Alias, contivAliasPrefix) && attrs.Name != loopbackName {
			continue
		}
		host = append(host, HostLink{Name: attrs.Name, MTU: attrs.MTU, Up: isUp(l)})
		at[attrs.Index] = &host[len(host)-1]
	}
	for _, a := range addresses {
		if l := at[a.Index]; l != nil {
			l.Addresses = append(l.Addresses, a.Prefix)
			if isFleeting(a) {
				l.Fleeting = append(l.Fleeting, a.Prefix)
			}
			switch a.Proto {
			case ownProtocol, vswitchProtocol:
				l.Assigned = append(l.Assigned, a.Prefix)
			case leasedProtocol:
				l.Leased = append(l.Leased, a.Prefix)
			}
		}
	}
	return host, setDefaultGateways(ns, at)
}

func isFleeting(a rtnl.Address) bool {
	flags := uint32(unix.IFA_F_DEPRECATED | unix.IFA_F_DADFAILED)
	if a.Prefix.Addr().Is6() {
		flags |= unix.IFA_F_TEMPORARY // of IPv4, the same bit means a second address of a network
	}
	return a.Flags&flags != 0
}

func setDefaultGateways(ns *namespaces.Namespace, links map[int]*HostLink) error {
	for _, noNextHop := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		family := netlink.FAMILY_V4
		if noNextHop.Is6() {
			family = netlink.FAMILY_V6
		}
		routes, err := ns.Routes(family, &netlink.Route{}, netlink.RT_FILTER_DST)
		if rtnl.IsUnsupported(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("list default routes of %s: %w", ns.Name, err)
		}
		slices.SortStableFunc(routes, func(a, b netlink.Route) int { return a.Priority - b.Priority })
		for _, r := range routes {
			if r.Protocol == ownProtocol || r.Protocol == vswitchProtocol {
				continue // the host has none
			}
			hops := []*netlink.NexthopInfo{{LinkIndex: r.LinkIndex, Gw: r.Gw}}
			if len(r.MultiPath) > 0 {
				hops = r.MultiPath
			}
			for _, hop := range hops {
				l := links[hop.LinkIndex]
				if l == nil || slices.ContainsFunc(l.DefaultGateways, func(gw netip.Addr) bool { return gw.Is6() == noNextHop.Is6() }) {
					continue
				}
				gateway := noNextHop
				if gw, ok := netip.AddrFromSlice(hop.Gw); ok {
					gateway = gw.Unmap()
				}
				l.DefaultGateways = append(l.DefaultGateways, gateway)
			}
		}
	}
	return nil
}
