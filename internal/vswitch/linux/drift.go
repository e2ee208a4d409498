package linux

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	linux_l3 "github.com/contiv/contiv/api/ligato/linux/l3"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/linux/iptables"
	"github.com/contiv/contiv/internal/vswitch/linux/namespaces"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const maxReasons = 3

// batch collects the events of a short period: the last event of each object.
type batch struct {
	links map[deviceID]linkEvent
	// gone holds the namespaces that have ceased to exist.
	gone       map[namespaces.ID]bool
	addresses  map[addressID]bool // false: deleted
	routes     map[routeID]rtnl.RouteEvent
	neighbours map[neighbourID]rtnl.Neighbour
	// hostNames requests a comparison of the obtained values of foreign devices.
	hostNames bool
	// lost is set when the kernel dropped events.
	lost bool
}

// linkEvent is the payload of an event. It is decoded only for the comparison, because creating one
// device causes many events.
type linkEvent struct {
	deleted bool
	data    []byte
}

type addressID struct {
	device deviceID
	prefix netip.Prefix
}

// routeID holds the attributes by which the kernel tells routes apart.
type routeID struct {
	ns     namespaces.ID
	dst    netip.Prefix
	metric int
}

type neighbourID struct {
	device deviceID
	ip     netip.Addr
}

func newBatch() *batch {
	return &batch{
		links: map[deviceID]linkEvent{}, gone: map[namespaces.ID]bool{}, addresses: map[addressID]bool{},
		routes: map[routeID]rtnl.RouteEvent{}, neighbours: map[neighbourID]rtnl.Neighbour{},
	}
}

func (b *batch) empty() bool {
	return len(b.links)+len(b.gone)+len(b.addresses)+len(b.routes)+len(b.neighbours) == 0 && !b.hostNames && !b.lost
}

func (b *batch) add(ns namespaces.ID, m syscall.NetlinkMessage) {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		b.addLink(ns, m)
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		if a, ok := rtnl.ParseAddress(m.Data); ok {
			b.addresses[addressID{deviceID{ns, a.Index}, a.Prefix}] = m.Header.Type == unix.RTM_NEWADDR
		}
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		b.addRoute(ns, m)
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		n, ok := rtnl.ParseNeighbour(m.Data)
		if !ok {
			return
		}
		if m.Header.Type == unix.RTM_DELNEIGH {
			n.State = netlink.NUD_NONE
		}
		b.neighbours[neighbourID{deviceID{ns, n.Index}, n.Ip}] = n
	}
}

func (b *batch) addLink(ns namespaces.ID, m syscall.NetlinkMessage) {
	if len(m.Data) < unix.SizeofIfInfomsg || m.Data[0] == unix.AF_BRIDGE { // concerns a bridge port
		return
	}
	b.links[deviceID{ns, rtnl.LinkIndex(m.Data)}] = linkEvent{deleted: m.Header.Type == unix.RTM_DELLINK, data: m.Data}
}

func (b *batch) addRoute(ns namespaces.ID, m syscall.NetlinkMessage) {
	r, ok := rtnl.ParseRouteEvent(m)
	if !ok || r.Table != unix.RT_TABLE_MAIN {
		return
	}
	if r.Protocol != ownProtocol && !r.Replaced {
		return // foreign routes may exist
	}
	b.routes[routeID{ns, r.Destination, int(r.Metric)}] = r
}

// drift is the difference between the configuration and the events.
type drift struct {
	reasons []string
	keys    map[string]bool
}

func (d *drift) add(reason string, keys ...string) {
	d.reasons = append(d.reasons, reason)
	for _, key := range keys {
		d.keys[key] = true
	}
}

func (d *drift) sortedKeys() []string {
	keys := make([]string, 0, len(d.keys))
	for key := range d.keys {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func (d *drift) reason() string {
	slices.Sort(d.reasons)
	reasons := slices.Compact(slices.Clone(d.reasons))
	if more := len(reasons) - maxReasons; more > 0 {
		reasons = append(reasons[:maxReasons:maxReasons], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(reasons, "; ")
}

func (b *batch) drift(i *inventory, chains *iptables.Chains) *drift {
	d := &drift{keys: map[string]bool{}}
	if b.lost {
		for _, name := range i.names() {
			_, device, _ := i.get(name)
			if e, ok := i.entryOf(device); ok {
				d.add("netlink events were lost", e.keys()...)
			}
		}
	}
	for ns := range b.gone {
		for key := range chains.In(ns) {
			d.add("network namespace of a rule chain is gone", key)
		}
		for index, name := range i.devicesIn(ns) {
			if e, ok := i.entryOf(deviceID{ns, index}); ok {
				d.add(fmt.Sprintf("network namespace of %s is gone", name), e.keys()...)
			}
		}
	}
	for device, event := range b.links {
		if e, ok := i.entryOf(device); ok {
			if change := event.change(e); change != "" {
				d.add(fmt.Sprintf("interface %s %s", e.value.GetName(), change), e.keys()...)
			}
		}
	}
	for id, exists := range b.addresses {
		e, ok := i.entryOf(id.device)
		if ok && !exists && !e.value.GetLinkOnly() && e.addresses[id.prefix] {
			d.add(fmt.Sprintf("address %s of %s was deleted", id.prefix, e.value.GetName()), e.keys()...)
		}
	}
	b.routeDrift(i, d)
	for id, n := range b.neighbours {
		if e, ok := i.entryOf(id.device); ok {
			neighbourDrift(e, id.ip, n, d)
		}
	}
	return d
}

func (event linkEvent) change(e onDevice) string {
	link, err := netlink.LinkDeserialize(nil, event.data)
	if err != nil {
		return ""
	}
	v, attrs := e.value, link.Attrs()
	switch {
	case event.deleted:
		return "was deleted"
	case attrs.Name != deviceName(v):
		return "was renamed to " + attrs.Name
	case !isExisting(v) && attrs.Alias != aliasPrefix+v.GetName():
		return "lost its alias"
	case v.GetEnabled() && !isUp(link) && !isExisting(v):
		return "was set down"
	case !v.GetEnabled() && isUp(link) && !mayNotSetDown(v):
		return "was set up"
	case v.GetMtu() != 0 && int(v.GetMtu()) != attrs.MTU:
		return fmt.Sprintf("got MTU %d", attrs.MTU)
	case setsMAC(v) && !sameMAC(v.GetPhysAddress(), attrs.HardwareAddr.String()):
		return "got MAC address " + attrs.HardwareAddr.String()
	}
	return ""
}

func (b *batch) routeDrift(i *inventory, d *drift) {
	for id, event := range b.routes {
		for index := range i.devicesIn(id.ns) {
			e, ok := i.entryOf(deviceID{id.ns, index})
			if !ok {
				continue
			}
			for key, want := range e.routes {
				dst, _ := destination(want)
				if dst != id.dst || int(metricOf(want)) != id.metric {
					continue
				}
				if change := routeChange(event, index, want); change != "" {
					d.add(fmt.Sprintf("%s of %s %s", routeTitle(dst), e.value.GetName(), change), key)
				}
			}
		}
	}
}

func routeChange(event rtnl.RouteEvent, index int, want *linux_l3.Route) string {
	if event.Deleted {
		if event.Device != 0 && event.Device != index {
			return ""
		}
		return "was deleted"
	}
	if event.Device != index || event.Protocol != ownProtocol || event.Gateway != gateway(want) {
		return "was replaced"
	}
	return ""
}

func routeTitle(dst netip.Prefix) string {
	if dst.Bits() == 0 {
		return "default route"
	}
	return "route to " + dst.String()
}

func neighbourDrift(e onDevice, ip netip.Addr, n rtnl.Neighbour, d *drift) {
	for key, want := range e.arps {
		if wantIP, _ := netip.ParseAddr(want.GetIpAddress()); wantIP != ip {
			continue
		}
		switch {
		case n.State&netlink.NUD_PERMANENT == 0:
			d.add(fmt.Sprintf("neighbour %s of %s was deleted", ip, e.value.GetName()), key)
		case !sameMAC(n.Mac.String(), want.GetHwAddress()):
			d.add(fmt.Sprintf("neighbour %s of %s was changed", ip, e.value.GetName()), key)
		}
	}
}
