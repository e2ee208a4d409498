package linux

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/vishvananda/netlink"
	"google.golang.org/protobuf/types/known/emptypb"
)

// HostNameDescriptor is the name of the descriptor of the devices that others
// made in the agent's own network namespace.
const HostNameDescriptor = "linux-interface-watcher"

const hostNameKeyPrefix = "linux/interface/host-name/"

type hostNameItem = kvscheduler.Item[*emptypb.Empty, kvscheduler.NoMetadata]

// hostNameDescriptor describes obtained values: a device that is up, and each of
// its addresses. Watch pushes their changes. What Contiv made is not among them,
// so that a pod that comes or goes causes no notification.
func (p *Plugin) hostNameDescriptor() kvscheduler.Descriptor[*emptypb.Empty, kvscheduler.NoMetadata] {
	return kvscheduler.Descriptor[*emptypb.Empty, kvscheduler.NoMetadata]{
		Name:     HostNameDescriptor,
		Keys:     kvscheduler.KeySpace{Prefix: hostNameKeyPrefix},
		KeyLabel: func(key string) string { return strings.TrimPrefix(key, hostNameKeyPrefix) },
		Retrieve: func(context.Context, []hostNameItem) ([]hostNameItem, error) {
			keys, err := p.hostNameKeys()
			if err != nil {
				return nil, fmt.Errorf("retrieve the devices of others: %w", err)
			}
			items := make([]hostNameItem, 0, len(keys))
			for _, key := range slices.Sorted(maps.Keys(keys)) {
				items = append(items, hostNameItem{Key: key, Value: &emptypb.Empty{}, Origin: kvscheduler.FromSB})
			}
			return items, nil
		},
	}
}

// hostNameKeys returns the keys of the obtained values that exist.
func (p *Plugin) hostNameKeys() (map[string]bool, error) {
	own := p.namespaces.own
	links, err := own.links()
	if err != nil {
		return nil, err
	}
	keys, names := map[string]bool{}, map[int]string{}
	for _, l := range links {
		if isObtained(l) {
			names[l.Attrs().Index] = l.Attrs().Name
			keys[models.LinuxHostNameKey(l.Attrs().Name)] = true
		}
	}
	addresses, err := own.addresses()
	if err != nil {
		return nil, err
	}
	for _, a := range addresses {
		if name, ok := names[a.index]; ok {
			keys[models.LinuxHostNameAddressKey(name, a.prefix.String())] = true
		}
	}
	return keys, nil
}

// isObtained tells if a device is up and made by others.
func isObtained(l netlink.Link) bool {
	return isUp(l) && !strings.HasPrefix(l.Attrs().Alias, contivAliasPrefix)
}

// HostLink is a network device of a node.
type HostLink struct {
	Name string
	// MTU in bytes.
	MTU int
	// Addresses with the lengths of their prefixes.
	Addresses []netip.Prefix
	// DefaultRoute tells if a default route of the main table leaves through the
	// device; DefaultGateway is its gateway, invalid if it has none.
	DefaultRoute   bool
	DefaultGateway netip.Addr
	// Up tells if the device is administratively up.
	Up bool
	// Contiv tells if the device is one that Contiv made.
	Contiv bool
}

// Links returns the devices of the agent's own network namespace in the order of
// their indexes. Of several default routes through a device, the one with the
// lowest metric counts, IPv4 before IPv6.
func (p *Plugin) Links() ([]HostLink, error) { return hostLinks(p.namespaces.own) }

// Links returns the devices of a network namespace, given by its path; "": of the
// calling thread.
func Links(netNS string) ([]HostLink, error) {
	n, err := newNamespaces(netNS, defaultNamedDir)
	if err != nil {
		return nil, err
	}
	defer n.close()
	return hostLinks(n.own)
}

func hostLinks(ns *netNS) ([]HostLink, error) {
	links, err := ns.links()
	if err != nil {
		return nil, err
	}
	addresses, err := ns.addresses()
	if err != nil {
		return nil, err
	}
	host := make([]HostLink, 0, len(links))
	at := map[int]*HostLink{}
	for _, l := range links {
		attrs := l.Attrs()
		host = append(host, HostLink{
			Name: attrs.Name, MTU: attrs.MTU, Up: isUp(l), Contiv: strings.HasPrefix(attrs.Alias, contivAliasPrefix),
		})
		at[attrs.Index] = &host[len(host)-1]
	}
	for _, a := range addresses {
		if l := at[a.index]; l != nil {
			l.Addresses = append(l.Addresses, a.prefix)
		}
	}
	return host, setDefaultGateways(ns, at)
}

func setDefaultGateways(ns *netNS, links map[int]*HostLink) error {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		var routes []netlink.Route
		err := repeatInterrupted(func() (err error) {
			routes, err = ns.RouteListFiltered(family, &netlink.Route{}, netlink.RT_FILTER_DST)
			return err
		})
		if unsupportedByKernel(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("list default routes of %s: %w", ns.name, err)
		}
		slices.SortStableFunc(routes, func(a, b netlink.Route) int { return a.Priority - b.Priority })
		for _, r := range routes {
			hops := []*netlink.NexthopInfo{{LinkIndex: r.LinkIndex, Gw: r.Gw}}
			if len(r.MultiPath) > 0 {
				hops = r.MultiPath
			}
			for _, hop := range hops {
				if l := links[hop.LinkIndex]; l != nil && !l.DefaultRoute {
					l.DefaultRoute = true
					l.DefaultGateway, _ = netip.AddrFromSlice(hop.Gw)
				}
			}
		}
	}
	return nil
}
