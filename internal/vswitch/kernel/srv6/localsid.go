package srv6

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/models"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

type localSIDs srv6

// END.X, DX4 and DX6 have a next hop. If it is on the link, the kernel resolves the neighbour with
// the packet's destination instead, through any device. So each SID uses a unique helper address
// with a route via the neighbour; without that route, packets are dropped.
//
//	IPv4  250.0.0.0/8 and the slot, from the permanently reserved range
//	IPv6  100::/64 and the ID of the nexthop, from the discard range (RFC 6666)
const metricFallback = 1 << 24

func helperFor(id uint32, ipv6 bool) netip.Addr {
	if ipv6 {
		return netip.AddrFrom16([16]byte{0: 1, 12: byte(id >> 24), 13: byte(id >> 16), 14: byte(id >> 8), 15: byte(id)})
	}
	return netip.AddrFrom4([4]byte{250, byte(id >> 16), byte(id >> 8), byte(id)})
}

func ofHelper(dst netip.Prefix) (id uint32, ok bool) {
	raw := dst.Addr().AsSlice()
	id = sidTag | binary.BigEndian.Uint32(raw[len(raw)-4:])&^tagMask
	return id, dst.IsSingleIP() && dst.Addr() == helperFor(id, dst.Addr().Is6())
}

func keyOf(v proto.Message) string { return models.Key(v) }

func crossConnected(s *vpp_srv6.LocalSID) bool {
	iface, _ := own.NeighbourOfSID(s)
	return iface != ""
}

func localSIDSupported(s *vpp_srv6.LocalSID) error {
	vrf := s.GetInstallationVrfId()
	switch f := s.GetEndFunction().(type) {
	case *vpp_srv6.LocalSID_EndFunctionX:
		if f.EndFunctionX.GetPsp() {
			return noPSP("END.X")
		}
	case *vpp_srv6.LocalSID_EndFunctionT:
		if f.EndFunctionT.GetPsp() {
			return noPSP("END.T")
		}
		vrf = max(vrf, f.EndFunctionT.GetVrfId())
	case *vpp_srv6.LocalSID_EndFunctionDt4:
		vrf = max(vrf, f.EndFunctionDt4.GetVrfId())
	case *vpp_srv6.LocalSID_EndFunctionDt6:
		vrf = max(vrf, f.EndFunctionDt6.GetVrfId())
	case *vpp_srv6.LocalSID_EndFunctionDx2:
		if f.EndFunctionDx2.GetVlanTag() != 0 {
			return vswitch.Unsupported("vlan_tag: the Linux kernel sends frames as they are: use a subinterface of the VLAN as outgoing interface")
		}
	case *vpp_srv6.LocalSID_EndFunctionAd:
		return vswitch.Unsupported("END.AD: the Linux kernel has no proxy for services that know nothing of segments: " +
			"let the service handle segments, or steer to it with END.DX4 or END.DX6 and back with a steering")
	}
	if vrf != 0 {
		return own.OnlyMain(vrf, "segment routing")
	}
	return nil
}

func noPSP(function string) error {
	return vswitch.Unsupported("psp with %s: the Linux kernel removes the header early with END only", function)
}

func (v localSIDs) Create(_ context.Context, s *vpp_srv6.LocalSID) error {
	if err := localSIDSupported(s); err != nil {
		return err
	}
	if err := v.EnableForwarding6(); err != nil {
		return err
	}
	if err := v.set(s); err != nil {
		return fmt.Errorf("making local SID %s: %w", s.GetSid(), srError(err))
	}
	v.Reg.Put(s)
	return nil
}

func (v localSIDs) set(s *vpp_srv6.LocalSID) error {
	v.srMu.Lock()
	defer v.srMu.Unlock()
	if err := v.acceptSegments(); err != nil {
		return err
	}
	state, err := v.readSR()
	if err != nil {
		return err
	}
	if err := v.sweep(state); err != nil {
		return err
	}
	dst := own.HostPrefix(netip.MustParseAddr(s.GetSid()))
	id := state.sidID(dst)
	function := srFunction{action: nl.SEG6_LOCAL_ACTION_END}
	switch f := s.GetEndFunction().(type) {
	case *vpp_srv6.LocalSID_BaseEndFunction:
		function.psp = f.BaseEndFunction.GetPsp()
	case *vpp_srv6.LocalSID_EndFunctionX:
		function.action, function.nh6 = nl.SEG6_LOCAL_ACTION_END_X, helperFor(id, true)
	case *vpp_srv6.LocalSID_EndFunctionDx4:
		function.action, function.nh4 = nl.SEG6_LOCAL_ACTION_END_DX4, helperFor(id, false)
	case *vpp_srv6.LocalSID_EndFunctionDx6:
		function.action, function.nh6 = nl.SEG6_LOCAL_ACTION_END_DX6, helperFor(id, true)
	// The kernel's END.DT4 needs a VRF device; END.DX4 without a next hop does the same. Without a
	// table, END.DT6 finds the addresses of the node, too.
	case *vpp_srv6.LocalSID_EndFunctionDt4:
		function.action, function.nh4 = nl.SEG6_LOCAL_ACTION_END_DX4, netip.IPv4Unspecified()
	case *vpp_srv6.LocalSID_EndFunctionDt6:
		function.action, function.lookup = nl.SEG6_LOCAL_ACTION_END_DT6, true
	case *vpp_srv6.LocalSID_EndFunctionDx2:
		function.action = nl.SEG6_LOCAL_ACTION_END_DX2
		return v.WithDevice(f.EndFunctionDx2.GetOutgoingInterface(), func(index int) error {
			function.oif = uint32(index)
			return v.install(state, dst, id, function)
		})
	}
	if iface, nextHop := own.NeighbourOfSID(s); iface != "" {
		err := v.WithDevice(iface, func(index int) error { return v.setHelper(helperFor(id, nextHop.Is6()), nextHop, index) })
		if err != nil {
			return err
		}
	}
	return v.install(state, dst, id, function)
}

var errNoPSP = vswitch.Unsupported("psp: this kernel does not remove the segment routing header early, which takes Linux 6.3 or later: leave psp out, then the header stays until the last segment")

func (v localSIDs) install(state *srState, dst netip.Prefix, id uint32, f srFunction) error {
	device, err := v.ensureSRDevice()
	if err != nil {
		return err
	}
	err = setNexthop(v.Net, srNexthop{id: id, index: device, kind: nl.LWTUNNEL_ENCAP_SEG6_LOCAL, encap: f.encode()})
	if f.psp && errors.Is(err, unix.EINVAL) {
		return errNoPSP
	}
	if err != nil {
		return err
	}
	if f.psp { // Linux before 6.1 ignores flavors
		made, err := nexthops(v.Net)
		if err != nil {
			return err
		}
		if !parseSRFunction(made[id].encap).psp {
			return errNoPSP
		}
	}
	return v.setSRRoute(state, srRoute{dst: dst, metric: metricOf(dst), nhid: id})
}

// sidID returns the ID of the nexthop of a SID, even if it does not exist.
func (s *srState) sidID(dst netip.Prefix) uint32 {
	if have, ok := s.route(dst); ok && have.nhid&tagMask == sidTag {
		return have.nhid
	}
	return sidTag | slot(dst.Addr(), sidSlots, func(n uint32) bool { _, taken := s.nexthops[sidTag|n]; return taken })
}

func (v localSIDs) setHelper(helper, nextHop netip.Addr, index int) error {
	dst := own.HostPrefix(helper)
	if err := replaceSRRoute(v.Net, srRoute{dst: dst, metric: metricFallback}); err != nil {
		return err
	}
	route := srRoute{dst: dst, metric: metricOf(dst), gw: nextHop, index: index}
	err := replaceSRRoute(v.Net, route)
	if !errors.Is(err, unix.EINVAL) || nextHop.Is4() {
		return err
	}
	// IPv6 refuses a neighbour that the present routes look for on another device, such as a pod
	// before its own route. Our route has the last precedence.
	neighbour := srRoute{dst: own.HostPrefix(nextHop), metric: metricFallback - 1, index: index}
	return errors.Join(replaceSRRoute(v.Net, neighbour), replaceSRRoute(v.Net, route))
}

// isNeighbour reports whether setHelper made the route to a neighbour.
func (r srRoute) isNeighbour() bool { return r.metric == metricFallback-1 }

func (v localSIDs) Delete(_ context.Context, s *vpp_srv6.LocalSID) error {
	err := v.Reg.During(s, func() error {
		return v.deleteRoute(own.HostPrefix(netip.MustParseAddr(s.GetSid())), sidTag)
	})
	if err != nil {
		return fmt.Errorf("deleting local SID %s: %w", s.GetSid(), err)
	}
	return nil
}

func (v localSIDs) List(_ context.Context, expected []*vpp_srv6.LocalSID) ([]*vpp_srv6.LocalSID, error) {
	state, err := v.readSR()
	if err != nil {
		return nil, ignoreNoSegments(err)
	}
	devs, err := v.Devices()
	if err != nil {
		return nil, err
	}
	hostSides := v.HostSides(devs)
	name := func(index int) string {
		if name, ok := hostSides[index]; ok {
			return name
		}
		return own.DeviceOrUnknown(devs, index)
	}
	wanted := map[netip.Addr]*vpp_srv6.LocalSID{}
	for _, s := range expected {
		if addr, err := netip.ParseAddr(s.GetSid()); err == nil {
			wanted[addr] = s
		}
	}
	var list []*vpp_srv6.LocalSID
	for _, r := range state.routes {
		if r.nhid&tagMask == sidTag && r.table == unix.RT_TABLE_MAIN {
			list = append(list, state.describeSID(r, wanted[r.dst.Addr()], name))
		}
	}
	own.Settle(v.Reg, expected, list)
	return list, nil
}

func (s *srState) describeSID(r srRoute, want *vpp_srv6.LocalSID, name func(int) string) *vpp_srv6.LocalSID {
	sid := &vpp_srv6.LocalSID{Sid: r.dst.Addr().String()}
	if want != nil {
		sid.Sid = want.GetSid()
	}
	f := parseSRFunction(s.nexthops[r.nhid].encap)
	var iface, nextHop string
	for _, addr := range []netip.Addr{f.nh4, f.nh6} {
		if !addr.IsValid() || addr.IsUnspecified() {
			continue
		}
		if helper, ok := s.route(own.HostPrefix(addr)); ok && helper.gw.IsValid() {
			iface, nextHop = name(helper.index), helper.gw.String()
		}
	}
	switch {
	case f.action == nl.SEG6_LOCAL_ACTION_END && want.GetEndFunctionT() != nil:
		sid.EndFunction = &vpp_srv6.LocalSID_EndFunctionT{EndFunctionT: &vpp_srv6.LocalSID_EndT{Psp: f.psp}}
	case f.action == nl.SEG6_LOCAL_ACTION_END:
		sid.EndFunction = &vpp_srv6.LocalSID_BaseEndFunction{BaseEndFunction: &vpp_srv6.LocalSID_End{Psp: f.psp}}
	case f.action == nl.SEG6_LOCAL_ACTION_END_X:
		sid.EndFunction = &vpp_srv6.LocalSID_EndFunctionX{EndFunctionX: &vpp_srv6.LocalSID_EndX{OutgoingInterface: iface, NextHop: nextHop}}
	case f.action == nl.SEG6_LOCAL_ACTION_END_DX2:
		sid.EndFunction = &vpp_srv6.LocalSID_EndFunctionDx2{EndFunctionDx2: &vpp_srv6.LocalSID_EndDX2{OutgoingInterface: name(int(f.oif))}}
	case f.action == nl.SEG6_LOCAL_ACTION_END_DX4 && f.nh4.IsUnspecified():
		sid.EndFunction = &vpp_srv6.LocalSID_EndFunctionDt4{EndFunctionDt4: &vpp_srv6.LocalSID_EndDT4{}}
	case f.action == nl.SEG6_LOCAL_ACTION_END_DX4:
		sid.EndFunction = &vpp_srv6.LocalSID_EndFunctionDx4{EndFunctionDx4: &vpp_srv6.LocalSID_EndDX4{OutgoingInterface: iface, NextHop: nextHop}}
	case f.action == nl.SEG6_LOCAL_ACTION_END_DT6:
		sid.EndFunction = &vpp_srv6.LocalSID_EndFunctionDt6{EndFunctionDt6: &vpp_srv6.LocalSID_EndDT6{}}
	case f.action == nl.SEG6_LOCAL_ACTION_END_DX6:
		sid.EndFunction = &vpp_srv6.LocalSID_EndFunctionDx6{EndFunctionDx6: &vpp_srv6.LocalSID_EndDX6{OutgoingInterface: iface, NextHop: nextHop}}
	}
	return sid
}

// RestoreSegments restores the local SIDs with the interface as output.
func (v *Driver) RestoreSegments(iface string) error {
	var errs []error
	for _, key := range v.Reg.KeysOf(iface) {
		value, _ := v.Reg.Get(key)
		if sid, ok := value.(*vpp_srv6.LocalSID); ok {
			errs = append(errs, localSIDs{v}.set(sid))
		}
	}
	return errors.Join(errs...)
}
