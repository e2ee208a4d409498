package srv6

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ip_types"
	"go.fd.io/govpp/binapi/sr"
	"go.fd.io/govpp/binapi/sr_types"
)

type localSIDs struct{ *SRv6 }

// function is the action at a segment, in VPP's form.
type function struct {
	behavior sr_types.SrBehavior
	psp      bool
	table    uint32 // that has the SID
	// target is the interface of a cross-connect, or the table of a lookup.
	target  uint32
	nextHop netip.Addr
}

func (v localSIDs) Create(ctx context.Context, s *vpp_srv6.LocalSID) error {
	want, err := v.functionOf(ctx, s)
	if err == nil {
		err = v.set(ctx, s, want)
	}
	if err == nil {
		err = v.onSIDs(ctx)
	}
	if err != nil {
		return fmt.Errorf("making local SID %s: %w", s.GetSid(), srLocalSIDError(err))
	}
	return nil
}

// set tries to create the SID before it looks for an existing one, which is rare.
func (v localSIDs) set(ctx context.Context, s *vpp_srv6.LocalSID, want function) (err error) {
	add := &sr.SrLocalsidAddDel{
		Localsid: address6(s.GetSid()), Behavior: want.behavior, EndPsp: want.psp, FibTable: want.table,
		SwIfIndex: ownership.Index(want.target), VlanIndex: ^uint32(0),
	}
	if want.nextHop.IsValid() {
		add.NhAddr = convert.Address(want.nextHop)
	}
	v.sr.Lock()
	defer v.sr.Unlock()
	defer func() {
		if err == nil {
			v.nextHops.put(add.Localsid, want)
		}
	}()
	err = v.vpp.Call(ctx, module, add, &sr.SrLocalsidAddDelReply{})
	if !vppapi.Refused(err, srExists) {
		return err
	}
	now, err := v.find(ctx, s)
	if err != nil || now != nil && parseFunction(now) == want {
		return err
	}
	var reqs []api.Message
	if now != nil {
		reqs = append(reqs, deleteSID(now))
	}
	_, errs := session.CallAll[sr.SrLocalsidAddDelReply](ctx, v.vpp, module, append(reqs, add))
	return session.FirstError(errs)
}

func srLocalSIDError(err error) error {
	switch {
	case vppapi.Refused(err, srNoTable):
		return fmt.Errorf("its table does not exist (%w)", err)
	case vppapi.Refused(err, srAddressTaken):
		return fmt.Errorf("another route to this address exists, maybe a binding SID or an interface address (%w)", err)
	}
	return err
}

// functionOf returns VPP's action. Interfaces must exist.
func (v localSIDs) functionOf(ctx context.Context, s *vpp_srv6.LocalSID) (function, error) {
	f := function{table: s.GetInstallationVrfId()}
	var iface, nextHop string
	switch e := s.GetEndFunction().(type) {
	case *vpp_srv6.LocalSID_BaseEndFunction:
		f.behavior, f.psp = sr_types.SR_BEHAVIOR_API_END, e.BaseEndFunction.GetPsp()
	case *vpp_srv6.LocalSID_EndFunctionX:
		f.behavior, f.psp = sr_types.SR_BEHAVIOR_API_X, e.EndFunctionX.GetPsp()
		iface, nextHop = e.EndFunctionX.GetOutgoingInterface(), e.EndFunctionX.GetNextHop()
	case *vpp_srv6.LocalSID_EndFunctionT:
		f.behavior, f.psp, f.target = sr_types.SR_BEHAVIOR_API_T, e.EndFunctionT.GetPsp(), e.EndFunctionT.GetVrfId()
	case *vpp_srv6.LocalSID_EndFunctionDx2:
		if e.EndFunctionDx2.GetVlanTag() != 0 {
			return f, vswitch.Unsupported("vlan_tag: VPP sends frames as they are: use a subinterface of the VLAN as outgoing interface")
		}
		f.behavior, iface = sr_types.SR_BEHAVIOR_API_DX2, e.EndFunctionDx2.GetOutgoingInterface()
	case *vpp_srv6.LocalSID_EndFunctionDx4:
		f.behavior, iface, nextHop = sr_types.SR_BEHAVIOR_API_DX4, e.EndFunctionDx4.GetOutgoingInterface(), e.EndFunctionDx4.GetNextHop()
	case *vpp_srv6.LocalSID_EndFunctionDx6:
		f.behavior, iface, nextHop = sr_types.SR_BEHAVIOR_API_DX6, e.EndFunctionDx6.GetOutgoingInterface(), e.EndFunctionDx6.GetNextHop()
	case *vpp_srv6.LocalSID_EndFunctionDt4:
		f.behavior, f.target = sr_types.SR_BEHAVIOR_API_DT4, e.EndFunctionDt4.GetVrfId()
	case *vpp_srv6.LocalSID_EndFunctionDt6:
		f.behavior, f.target = sr_types.SR_BEHAVIOR_API_DT6, e.EndFunctionDt6.GetVrfId()
	case *vpp_srv6.LocalSID_EndFunctionAd:
		return f, vswitch.Unsupported("END.AD: VPP's proxies for services that know nothing of segments (plugins srv6-ad, srv6-as, srv6-am) have no API: " +
			"let the service handle segments, or steer to it with END.DX4 or END.DX6 and back with a steering")
	}
	if iface != "" {
		i, err := v.ifs.Index(ctx, iface)
		if err != nil {
			return f, err
		}
		f.target = uint32(i)
	}
	f.nextHop, _ = netip.ParseAddr(nextHop)
	return f, nil
}

func parseFunction(d *sr.SrLocalsidsDetails) function {
	f := function{behavior: d.Behavior, psp: d.EndPsp, table: d.FibTable, target: d.XconnectIfaceOrVrfTable}
	switch d.Behavior {
	case sr_types.SR_BEHAVIOR_API_END:
		f.target = 0
	case sr_types.SR_BEHAVIOR_API_DX4:
		f.nextHop = convert.Addr(d.XconnectNhAddr)
	case sr_types.SR_BEHAVIOR_API_X, sr_types.SR_BEHAVIOR_API_DX6:
		f.nextHop = addr6Of(d.XconnectNhAddr)
	}
	return f
}

// addr6Of returns an IPv6 address that VPP may report as IPv4.
func addr6Of(a ip_types.Address) netip.Addr {
	if a.Af == ip_types.ADDRESS_IP6 {
		return netip.AddrFrom16(a.Un.GetIP6())
	}
	var raw [16]byte
	v4 := a.Un.GetIP4()
	copy(raw[12:], v4[:])
	return netip.AddrFrom16(raw)
}

// find returns VPP's SID, or nil.
func (v localSIDs) find(ctx context.Context, s *vpp_srv6.LocalSID) (*sr.SrLocalsidsDetails, error) {
	all, err := session.Dump[sr.SrLocalsidsDetails](ctx, v.vpp, module, &sr.SrLocalsidsDump{})
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		if d.Addr == address6(s.GetSid()) {
			return d, nil
		}
	}
	return nil, nil
}

// deleteSID names the table, which VPP does not check.
func deleteSID(d *sr.SrLocalsidsDetails) *sr.SrLocalsidAddDel {
	return &sr.SrLocalsidAddDel{IsDel: true, Localsid: d.Addr, Behavior: sr_types.SR_BEHAVIOR_API_END, FibTable: d.FibTable}
}

func (v localSIDs) Delete(ctx context.Context, s *vpp_srv6.LocalSID) error {
	v.sr.Lock()
	defer v.sr.Unlock()
	now, err := v.find(ctx, s)
	if err == nil && now != nil {
		err = v.vpp.Call(ctx, module, deleteSID(now), &sr.SrLocalsidAddDelReply{})
	}
	if err != nil && !vppapi.Refused(err, srNotThere) {
		return fmt.Errorf("deleting local SID %s: %w", s.GetSid(), err)
	}
	v.nextHops.put(address6(s.GetSid()), function{})
	return v.onSIDs(ctx)
}

func (v localSIDs) List(ctx context.Context, expected []*vpp_srv6.LocalSID) ([]*vpp_srv6.LocalSID, error) {
	v.sr.Lock()
	defer v.sr.Unlock()
	all, err := session.Dump[sr.SrLocalsidsDetails](ctx, v.vpp, module, &sr.SrLocalsidsDump{})
	if err != nil {
		return nil, fmt.Errorf("listing local SIDs: %w", err)
	}
	functions := make(map[ip_types.IP6Address]function, len(all))
	for _, d := range all {
		functions[d.Addr] = parseFunction(d)
	}
	v.nextHops.replace(functions)
	text := convert.Texts(expected, (*vpp_srv6.LocalSID).GetSid)
	list := make([]*vpp_srv6.LocalSID, 0, len(all))
	for _, d := range all {
		s, err := v.describe(ctx, parseFunction(d))
		if err != nil {
			return nil, fmt.Errorf("listing local SIDs: %w", err)
		}
		s.Sid = text(netip.AddrFrom16(d.Addr))
		list = append(list, s)
	}
	return list, nil
}

// describe returns the value without its SID. It omits an unknown function.
func (v localSIDs) describe(ctx context.Context, f function) (*vpp_srv6.LocalSID, error) {
	s := &vpp_srv6.LocalSID{InstallationVrfId: f.table}
	var iface string
	var err error
	switch f.behavior {
	case sr_types.SR_BEHAVIOR_API_X, sr_types.SR_BEHAVIOR_API_DX2, sr_types.SR_BEHAVIOR_API_DX4, sr_types.SR_BEHAVIOR_API_DX6:
		iface, err = v.ifs.AnyName(ctx, ownership.Index(f.target))
	}
	switch f.behavior {
	case sr_types.SR_BEHAVIOR_API_END:
		s.EndFunction = &vpp_srv6.LocalSID_BaseEndFunction{BaseEndFunction: &vpp_srv6.LocalSID_End{Psp: f.psp}}
	case sr_types.SR_BEHAVIOR_API_X:
		s.EndFunction = &vpp_srv6.LocalSID_EndFunctionX{EndFunctionX: &vpp_srv6.LocalSID_EndX{
			Psp: f.psp, OutgoingInterface: iface, NextHop: f.nextHop.String()}}
	case sr_types.SR_BEHAVIOR_API_T:
		s.EndFunction = &vpp_srv6.LocalSID_EndFunctionT{EndFunctionT: &vpp_srv6.LocalSID_EndT{Psp: f.psp, VrfId: f.target}}
	case sr_types.SR_BEHAVIOR_API_DX2:
		s.EndFunction = &vpp_srv6.LocalSID_EndFunctionDx2{EndFunctionDx2: &vpp_srv6.LocalSID_EndDX2{OutgoingInterface: iface}}
	case sr_types.SR_BEHAVIOR_API_DX4:
		s.EndFunction = &vpp_srv6.LocalSID_EndFunctionDx4{EndFunctionDx4: &vpp_srv6.LocalSID_EndDX4{
			OutgoingInterface: iface, NextHop: f.nextHop.String()}}
	case sr_types.SR_BEHAVIOR_API_DX6:
		s.EndFunction = &vpp_srv6.LocalSID_EndFunctionDx6{EndFunctionDx6: &vpp_srv6.LocalSID_EndDX6{
			OutgoingInterface: iface, NextHop: f.nextHop.String()}}
	case sr_types.SR_BEHAVIOR_API_DT4:
		s.EndFunction = &vpp_srv6.LocalSID_EndFunctionDt4{EndFunctionDt4: &vpp_srv6.LocalSID_EndDT4{VrfId: f.target}}
	case sr_types.SR_BEHAVIOR_API_DT6:
		s.EndFunction = &vpp_srv6.LocalSID_EndFunctionDt6{EndFunctionDt6: &vpp_srv6.LocalSID_EndDT6{VrfId: f.target}}
	}
	return s, err
}
