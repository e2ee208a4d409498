package routes

import (
	"context"
	"net/netip"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/models"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func (v routes) Find(ctx context.Context, expected []*vpp_l3.Route) ([]*vpp_l3.Route, error) {
	var list []*vpp_l3.Route
	for _, want := range expected {
		route := v.routeTo(want)
		if route == nil {
			return own.FindIn(ctx, v.List, expected)
		}
		list = append(list, route)
	}
	own.Settle(v.Reg, expected, list)
	return list, nil
}

func (v routes) routeTo(want *vpp_l3.Route) *vpp_l3.Route {
	dst, err := netip.ParsePrefix(want.GetDstNetwork())
	if err != nil || want.GetVrfId() != 0 || want.GetOutgoingInterface() == "" {
		return nil
	}
	link, err := v.Link(want.GetOutgoingInterface())
	if err != nil {
		return nil
	}
	found, err := v.Net.RouteGetWithOptions(dst.Addr().AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})
	if err != nil || len(found) != 1 {
		return nil
	}
	r := &found[0]
	if r.Protocol != own.ProtoOurs || r.Table != unix.RT_TABLE_MAIN || len(r.MultiPath) > 0 || r.LinkIndex != link.Attrs().Index || own.Destination(r) != dst.Masked() {
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
