package routes

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	"github.com/contiv/contiv/internal/netlink/rtnl"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// routeID identifies a route, with normalized addresses.
type routeID struct {
	vrf   uint32
	dst   netip.Prefix
	gw    netip.Addr
	iface string
}

func (v routes) List(_ context.Context, expected []*vpp_l3.Route) ([]*vpp_l3.Route, error) {
	devs, err := v.Devices()
	if err != nil {
		return nil, err
	}
	hostSides := v.HostSides(devs)
	wanted := make(map[routeID]*vpp_l3.Route, len(expected))
	for _, r := range expected {
		dst, _ := netip.ParsePrefix(r.GetDstNetwork())
		gw, _ := netip.ParseAddr(r.GetNextHopAddr())
		if own.LeadsAway(r) {
			gw = netip.Addr{}
		}
		wanted[routeID{r.GetVrfId(), dst.Masked(), gw, r.GetOutgoingInterface()}] = r
	}
	leads, err := v.vrf.Leads()
	if err != nil {
		return nil, err
	}
	var list []*vpp_l3.Route
	for _, fam := range []int{unix.AF_INET, unix.AF_INET6} {
		found, err := rtnl.Dump(func() ([]netlink.Route, error) {
			return v.Net.RouteListFiltered(fam, &netlink.Route{Protocol: own.ProtoOurs}, netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
		})
		if err != nil {
			return nil, fmt.Errorf("reading routes: %w", err)
		}
		for _, r := range found {
			vrf, ok := own.VRFOfTable(uint32(r.Table))
			if !ok {
				continue
			}
			if via, away := leads.Of(&r); away {
				list = append(list, describeLead(&r, vrf, via, wanted))
				continue
			}
			list = append(list, describePaths(&r, wanted, func(index int) string {
				if name, ok := hostSides[index]; ok {
					return name
				}
				return own.DeviceOrUnknown(devs, index)
			})...)
		}
	}
	own.Settle(v.Reg, expected, list)
	return list, nil
}

func describePaths(r *netlink.Route, wanted map[routeID]*vpp_l3.Route, nameOf func(int) string) (list []*vpp_l3.Route) {
	dst := own.Destination(r)
	vrf, _ := own.VRFOfTable(uint32(r.Table))
	paths := pathsOf(r)
	for _, p := range paths {
		route := &vpp_l3.Route{VrfId: vrf, DstNetwork: dst.String(), Preference: preference(r)}
		switch {
		case r.Type == unix.RTN_BLACKHOLE:
			route.Type = vpp_l3.Route_DROP
			p = path{weight: 1}
		default:
			route.OutgoingInterface = nameOf(p.index)
			if p.gw.IsValid() {
				route.NextHopAddr = p.gw.String()
			}
		}
		want := wanted[routeID{vrf, dst, p.gw, route.OutgoingInterface}]
		if want == nil {
			want = wanted[routeID{vrf, dst, p.gw, ""}] // the kernel chose the device
		}
		route.Weight = p.weight
		if want != nil {
			complete(route, want, len(paths))
		}
		list = append(list, route)
	}
	return list
}

// complete copies properties that the kernel does not store: the notation of addresses, and the
// weight of a single path.
func complete(route, want *vpp_l3.Route, paths int) {
	route.DstNetwork = want.GetDstNetwork()
	route.NextHopAddr = want.GetNextHopAddr()
	route.OutgoingInterface = want.GetOutgoingInterface()
	if want.GetType() == vpp_l3.Route_INTER_VRF && route.GetType() == vpp_l3.Route_INTRA_VRF {
		// The next hop is sufficient.
		route.Type, route.ViaVrfId = want.GetType(), want.GetViaVrfId()
	}
	if paths == 1 {
		route.Weight = want.GetWeight()
	}
}

func preference(r *netlink.Route) uint32 {
	if r.Family == unix.AF_INET6 && r.Priority == own.DefaultMetric6 {
		return 0
	}
	return uint32(r.Priority)
}
