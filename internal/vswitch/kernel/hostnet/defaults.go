package hostnet

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

type defaultRoutes struct {
	mu sync.Mutex
	// known holds the present default routes. lost holds routes that disappeared with their device.
	known, lost map[origin]netip.Addr // next hops; the zero Addr: none
}

type origin struct {
	device int
	ipv6   bool
}

func (v *Driver) rememberDefaults() error {
	v.defaults.known, v.defaults.lost = map[origin]netip.Addr{}, map[origin]netip.Addr{}
	routes, err := v.readDefaults()
	for _, r := range routes {
		if r.LinkIndex != 0 && !ownProtocol(uint8(r.Protocol)) {
			v.defaults.known[origin{r.LinkIndex, r.Family == unix.AF_INET6}] = own.AddrOf(r.Gw)
		}
	}
	return err
}

func (v *Driver) readDefaults() ([]netlink.Route, error) {
	routes, err := rtnl.Dump(func() ([]netlink.Route, error) {
		return v.Net.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, fmt.Errorf("reading the default routes of the host: %w", err)
	}
	return slices.DeleteFunc(routes, func(r netlink.Route) bool { return r.Type != unix.RTN_UNICAST || !toEverywhere(r.Dst) }), nil
}

func toEverywhere(dst *net.IPNet) bool {
	if dst == nil {
		return true
	}
	ones, _ := dst.Mask.Size()
	return ones == 0
}

// ownProtocol reports whether routes of the protocol are values or come from a lease; the agent
// restores them.
func ownProtocol(protocol uint8) bool {
	return protocol == own.ProtoOurs || protocol == own.ProtoLeased
}

func (v *Driver) noticeRoute(m syscall.NetlinkMessage) {
	r, ok := rtnl.ParseRouteEvent(m)
	if !ok || r.Destination.Bits() != 0 || r.Table != unix.RT_TABLE_MAIN || r.Device == 0 || ownProtocol(r.Protocol) {
		return
	}
	v.defaults.mu.Lock()
	defer v.defaults.mu.Unlock()
	from := origin{r.Device, r.Destination.Addr().Is6()}
	if r.Deleted {
		delete(v.defaults.known, from)
		return
	}
	v.defaults.known[from] = r.Gateway
	delete(v.defaults.lost, from)
}

func (v *Driver) noticeLink(m syscall.NetlinkMessage) (lost bool) {
	if len(m.Data) < unix.SizeofIfInfomsg || m.Data[0] == unix.AF_BRIDGE {
		return false
	}
	index := rtnl.LinkIndex(m.Data)
	v.defaults.mu.Lock()
	defer v.defaults.mu.Unlock()
	for _, from := range []origin{{index, false}, {index, true}} {
		switch gateway, known := v.defaults.known[from]; {
		case m.Header.Type == unix.RTM_DELLINK:
			delete(v.defaults.known, from)
			delete(v.defaults.lost, from)
		case known && !rtnl.LinkIsUp(m.Data):
			v.defaults.lost[from] = gateway
			delete(v.defaults.known, from)
			lost = true
		}
	}
	return lost
}

func (v *Driver) lostDefaults() (warnings []string, err error) {
	v.defaults.mu.Lock()
	lost := maps.Clone(v.defaults.lost)
	v.defaults.mu.Unlock()
	if len(lost) == 0 {
		return nil, nil
	}
	routes, err := v.readDefaults()
	if err != nil {
		return nil, err
	}
	for from, gateway := range lost {
		if slices.ContainsFunc(routes, func(r netlink.Route) bool { return (r.Family == unix.AF_INET6) == from.ipv6 }) {
			continue
		}
		link, err := v.Net.LinkByIndex(from.device)
		if rtnl.IsGone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("looking up device %d: %w", from.device, err)
		}
		device, via := link.Attrs().Name, ""
		if gateway.IsValid() {
			via = " via " + gateway.String()
		}
		warnings = append(warnings, fmt.Sprintf("device %s went down and took the host's default route along: pods and the node reach nothing outside of the cluster. "+
			"Contiv does not restore it: run `ip route add default%s dev %s`, or have the host's network configuration do it", device, via, device))
	}
	return warnings, nil
}
