package l3

import (
	"net/netip"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/internal/vswitch/netalloc"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

func allocatedRoutes(r *netalloc.Resolver) descriptor.Allocated[*vpp_l3.Route] {
	return descriptor.Allocated[*vpp_l3.Route]{
		Resolve: func(v *vpp_l3.Route) (_ *vpp_l3.Route, err error) {
			if isUnspecified(v.GetNextHopAddr()) { // is the form of "none" used by clients
				v = proto.CloneOf(v)
				v.NextHopAddr = ""
			}
			if !netalloc.HasRef(v.GetDstNetwork(), v.GetNextHopAddr()) {
				return v, nil
			}
			v = proto.CloneOf(v)
			if v.DstNetwork, err = r.Network(v.GetDstNetwork(), ""); err != nil {
				return nil, err
			}
			if v.NextHopAddr, err = r.Addr(v.GetNextHopAddr(), v.GetOutgoingInterface()); err != nil {
				return nil, err
			}
			return v, validateRoute(v)
		},
		Restore: func(found, resolved, wanted *vpp_l3.Route) {
			netalloc.Put(&found.DstNetwork, resolved.GetDstNetwork(), wanted.GetDstNetwork())
			netalloc.Put(&found.NextHopAddr, resolved.GetNextHopAddr(), wanted.GetNextHopAddr())
			if isUnspecified(wanted.GetNextHopAddr()) && found.GetNextHopAddr() == "" {
				found.NextHopAddr = wanted.GetNextHopAddr()
			}
		},
	}
}

func isUnspecified(text string) bool {
	addr, err := netip.ParseAddr(text)
	return err == nil && addr.IsUnspecified()
}

func allocatedARPs(r *netalloc.Resolver) descriptor.Allocated[*vpp_l3.ARPEntry] {
	return descriptor.Allocated[*vpp_l3.ARPEntry]{
		Resolve: func(v *vpp_l3.ARPEntry) (_ *vpp_l3.ARPEntry, err error) {
			if !netalloc.HasRef(v.GetIpAddress()) {
				return v, nil
			}
			v = proto.CloneOf(v)
			v.IpAddress, err = r.Addr(v.GetIpAddress(), "")
			return v, err
		},
		Restore: func(found, resolved, wanted *vpp_l3.ARPEntry) {
			netalloc.Put(&found.IpAddress, resolved.GetIpAddress(), wanted.GetIpAddress())
		},
	}
}

func validAddrOrRef(field, text string) error {
	if !netalloc.IsRef(text) {
		return descriptor.ValidAddr(field, text)
	}
	if _, err := netalloc.ParseRef(text, ""); err != nil {
		return descriptor.Invalid(field, "%w", err)
	}
	return nil
}

// inTable waits for the route's VRF table of its IP version. With references, the IP version is
// unknown and either table suffices.
func inTable(label string, vrf uint32, dst, gw string) kvscheduler.Dependency {
	switch {
	case !netalloc.IsRef(dst):
		return kvscheduler.Dependency{Label: label, Key: models.VRFTableKey(vrf, descriptor.IsIPv6Network(dst))}
	case gw != "" && !netalloc.IsRef(gw):
		return kvscheduler.Dependency{Label: label, Key: models.VRFTableKey(vrf, descriptor.IsIPv6(gw))}
	}
	return kvscheduler.Dependency{Label: label, AnyOf: kvscheduler.AnyOf{
		KeyPrefixes: []string{models.VRFTableKey(vrf, false), models.VRFTableKey(vrf, true)},
	}}
}
