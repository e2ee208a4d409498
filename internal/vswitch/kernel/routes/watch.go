package routes

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/drift"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/contiv/contiv/models"
	"golang.org/x/sys/unix"
)

type (
	// suspectRoute was replaced by any process with a route marked as ours.
	suspectRoute struct {
		vrf         uint32
		destination netip.Prefix
	}
	// suspectBlocked: foreign routes that block ours may be gone.
	suspectBlocked struct{}
)

// Notice detects deleted or replaced routes of ours, and events that may remove foreign routes.
func (v *Driver) Notice(m syscall.NetlinkMessage, send func(drift.Notice)) {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK: // a device that goes down loses its routes silently
		if v.blocked.any() {
			send(drift.Notice{Suspect: suspectBlocked{}})
		}
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		v.noticeRoute(m, send)
	}
}

func (v *Driver) noticeRoute(m syscall.NetlinkMessage, send func(drift.Notice)) {
	r, ok := rtnl.ParseRouteEvent(m)
	vrf, inVRF := own.VRFOfTable(r.Table)
	if !ok || !inVRF {
		return
	}
	what := "deleted"
	switch ours := r.Protocol == own.ProtoOurs; {
	case r.Deleted && !ours:
		if v.blocked.any() {
			send(drift.Notice{Suspect: suspectBlocked{}})
		}
		return
	case !r.Deleted && !r.Replaced:
		return
	case !r.Deleted && ours:
		send(drift.Notice{Suspect: suspectRoute{vrf, r.Destination}})
		return
	case !r.Deleted:
		what = "replaced"
	}
	send(drift.Notice{Reason: fmt.Sprintf("route %s was %s", r.Destination, what), Keys: keysOfValues(vrf, v.Reg.RoutesTo(r.Destination))})
}

// Check compares replaced routes with the requested ones, and checks whether foreign routes still
// block others of ours.
func (v *Driver) Check(b *drift.Batch) {
	for _, s := range drift.Suspects[suspectRoute](b) {
		for _, value := range v.Reg.RoutesTo(s.destination) {
			if value.GetVrfId() == s.vrf && !v.isThere(value) {
				b.Report(fmt.Sprintf("route %s was replaced", s.destination), models.Key(value))
			}
		}
	}
	if len(drift.Suspects[suspectBlocked](b)) == 0 {
		return
	}
	for _, value := range v.blocked.list() {
		if have, err := (routes{v}).sameDestination(kernelRoute(value, 0)); err == nil && (have == nil || have.Protocol == own.ProtoOurs) {
			b.Report(fmt.Sprintf("the route that was in the way of route %s is gone", value.GetDstNetwork()), models.Key(value))
		}
	}
}

// isThere reports whether the kernel has the route as in its value. It ignores errors, because
// these have separate events.
func (v *Driver) isThere(value *vpp_l3.Route) bool {
	index := 0
	if own.LeadsAway(value) {
		var err error
		if index, err = v.vrf.DeviceTo(value.GetViaVrfId()); err != nil {
			return true
		}
	} else if name := value.GetOutgoingInterface(); name != "" && value.GetType() != vpp_l3.Route_DROP {
		link, err := v.Link(name)
		if err != nil {
			return true
		}
		index = link.Attrs().Index
	}
	want := kernelRoute(value, index)
	have, err := (routes{v}).sameDestination(want)
	switch {
	case err != nil:
		return true
	case have == nil || have.Protocol != own.ProtoOurs || have.Type != want.Type:
		return false
	case want.Type != unix.RTN_UNICAST:
		return true
	}
	paths := pathsOf(have)
	return slices.ContainsFunc(paths, func(p path) bool {
		return p.goesTo(want) && (len(paths) == 1 || p.weight == max(value.GetWeight(), 1))
	})
}

func keysOfValues(vrf uint32, routes []*vpp_l3.Route) (keys []string) {
	for _, r := range routes {
		if r.GetVrfId() == vrf {
			keys = append(keys, models.Key(r))
		}
	}
	return keys
}
