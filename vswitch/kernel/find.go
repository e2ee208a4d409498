package kernel

import (
	"context"
	"net/netip"
	"slices"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/models"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// How Find reads values without reading those of others: it asks the kernel for
// what is expected by name, device and destination. The answer counts if it is
// there for all of them. Else, nothing is concluded: devices may have been
// renamed, routes may hide each other; List sees that.

// findIn selects the expected values from a list of all.
func findIn[V proto.Message](ctx context.Context, list func(context.Context, []V) ([]V, error), expected []V) ([]V, error) {
	keys := make(map[string]bool, len(expected))
	for _, v := range expected {
		keys[models.Key(v)] = true
	}
	all, err := list(ctx, expected)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(v V) bool { return !keys[models.Key(v)] }), nil
}

// inventoryByName has the expected interfaces only; nil if there are other ones
// among them than TAPs and loopbacks, or any is not found.
func (v interfaces) inventoryByName(expected []*vpp_interfaces.Interface) *inventory {
	inv := v.newInventory(&devices{byIndex: map[int]netlink.Link{}, byLogical: map[string]netlink.Link{}}, expected)
	var lenders []int
	for _, iface := range expected {
		name := iface.GetName()
		if t := iface.GetType(); t != vpp_interfaces.Interface_TAP && t != vpp_interfaces.Interface_SOFTWARE_LOOPBACK {
			return nil
		}
		if !inv.include(v.linkNamed(deviceName(devInterface, name))) {
			return nil
		}
		inv.include(v.linkNamed(deviceName(devPort, name))) // loopbacks have one
		lender := iface.GetUnnumbered().GetInterfaceWithIp()
		if lender == "" || inv.expected[lender] != nil {
			continue
		}
		link, err := v.link(lender)
		if !inv.include(link, err) {
			return nil
		}
		inv.expected[lender] = v.reg.iface(lender)
		lenders = append(lenders, link.Attrs().Index)
	}
	for index := range inv.byIndex {
		addrs, err := v.raw.addresses(index)
		if err != nil {
			return nil
		}
		inv.addAddresses(addrs)
	}
	var err error
	if inv.vrfs, err = v.viewVRFs(); err != nil || v.readIP6ND(inv) != nil {
		return nil
	}
	for _, index := range lenders {
		delete(inv.byIndex, index) // asked for its addresses only
	}
	return inv
}

// include adds a device that was looked up.
func (d *devices) include(link netlink.Link, err error) bool {
	if err == nil {
		d.byIndex[link.Attrs().Index] = link
	}
	return err == nil
}

func (v routes) Find(ctx context.Context, expected []*vpp_l3.Route) ([]*vpp_l3.Route, error) {
	var list []*vpp_l3.Route
	for _, want := range expected {
		route := v.routeTo(want)
		if route == nil {
			return findIn(ctx, v.List, expected)
		}
		list = append(list, route)
	}
	settle(v.reg, expected, list)
	return list, nil
}

// routeTo asks for the route that is used for the destination of the wanted one;
// nil unless it is that one.
func (v routes) routeTo(want *vpp_l3.Route) *vpp_l3.Route {
	dst, err := netip.ParsePrefix(want.GetDstNetwork())
	if err != nil || want.GetVrfId() != 0 || want.GetOutgoingInterface() == "" {
		return nil
	}
	link, err := v.link(want.GetOutgoingInterface())
	if err != nil {
		return nil
	}
	found, err := v.nl.RouteGetWithOptions(dst.Addr().AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})
	if err != nil || len(found) != 1 {
		return nil
	}
	r := &found[0]
	if r.Protocol != protoOurs || r.Table != unix.RT_TABLE_MAIN || len(r.MultiPath) > 0 || r.LinkIndex != link.Attrs().Index || destination(r) != dst.Masked() {
		return nil
	}
	gw, _ := netip.ParseAddr(want.GetNextHopAddr())
	wanted := map[routeID]*vpp_l3.Route{{0, dst.Masked(), gw, want.GetOutgoingInterface()}: want}
	paths := describePaths(r, wanted, func(int) string { return want.GetOutgoingInterface() })
	if len(paths) != 1 || models.Key(paths[0]) != models.Key(want) || paths[0].GetPreference() != want.GetPreference() {
		return nil
	}
	return paths[0]
}

func (v neighbours) Find(ctx context.Context, expected []*vpp_l3.ARPEntry) ([]*vpp_l3.ARPEntry, error) {
	var list []*vpp_l3.ARPEntry
	for _, want := range expected {
		entry := v.entryOf(want)
		if entry == nil {
			return findIn(ctx, v.List, expected)
		}
		list = append(list, entry)
	}
	settle(v.reg, expected, list)
	return list, nil
}

// entryOf asks for the entry of the wanted one's interface and address; nil if
// there is none of ours.
func (v neighbours) entryOf(want *vpp_l3.ARPEntry) *vpp_l3.ARPEntry {
	ip, err := netip.ParseAddr(want.GetIpAddress())
	if err != nil {
		return nil
	}
	link, err := v.link(want.GetInterface())
	if err != nil {
		return nil
	}
	n, err := v.raw.neighbour(link.Attrs().Index, ip.Unmap())
	if err != nil || !n.isOurs() {
		return nil
	}
	return describeNeighbour(n, want.GetInterface(), want)
}
