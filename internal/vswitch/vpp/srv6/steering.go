package srv6

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/binapi/ip_types"
	"go.fd.io/govpp/binapi/sr"
	"go.fd.io/govpp/binapi/sr_types"
	"google.golang.org/protobuf/proto"
)

type srSteerings struct{ *SRv6 }

// traffic is the steered traffic in a comparable form.
type traffic struct {
	network netip.Prefix // of packets; invalid: frames of an interface
	vrf     uint32
	iface   ownership.Index
}

func (v srSteerings) trafficOf(ctx context.Context, s *vpp_srv6.Steering) (t traffic, err error) {
	if l2 := s.GetL2Traffic(); l2 != nil {
		t.iface, err = v.ifs.Index(ctx, l2.GetInterfaceName())
		return t, err
	}
	t.vrf = s.GetL3Traffic().GetInstallationVrfId()
	t.network, err = convert.ParsePrefix(s.GetL3Traffic().GetPrefixAddress())
	return t, err
}

func parseTraffic(d *sr.SrSteeringPolDetails) traffic {
	switch d.TrafficType {
	case sr_types.SR_STEER_API_IPV4:
		return traffic{network: netip.PrefixFrom(convert.Addr(d.Prefix.Address), int(d.Prefix.Len)), vrf: d.FibTable}
	case sr_types.SR_STEER_API_IPV6:
		return traffic{network: netip.PrefixFrom(addr6Of(d.Prefix.Address), int(d.Prefix.Len)), vrf: d.FibTable}
	}
	return traffic{iface: d.SwIfIndex}
}

func (t traffic) request(bsid [16]byte, remove bool) *sr.SrSteeringAddDel {
	req := &sr.SrSteeringAddDel{IsDel: remove, BsidAddr: bsid, TableID: t.vrf, SwIfIndex: t.iface, TrafficType: sr_types.SR_STEER_API_L2}
	if t.network.IsValid() {
		req.Prefix = ip_types.Prefix{Address: convert.Address(t.network.Addr()), Len: uint8(t.network.Bits())}
		req.TrafficType = sr_types.SR_STEER_API_IPV6
		if t.network.Addr().Is4() {
			req.TrafficType = sr_types.SR_STEER_API_IPV4
		}
	}
	return req
}

// steeringRequest restores or removes a steering that was read.
func steeringRequest(d *sr.SrSteeringPolDetails, remove bool) *sr.SrSteeringAddDel {
	return parseTraffic(d).request(d.Bsid, remove)
}

// Create: VPP changes an existing one atomically.
func (v srSteerings) Create(ctx context.Context, s *vpp_srv6.Steering) error {
	if err := v.set(ctx, s); err != nil {
		return fmt.Errorf("steering %s into policy %s: %w", nameOfTraffic(s), s.GetPolicyBsid(), err)
	}
	return nil
}

// set makes the checks that VPP makes for new steering only.
func (v srSteerings) set(ctx context.Context, s *vpp_srv6.Steering) error {
	t, err := v.trafficOf(ctx, s)
	if err != nil {
		return err
	}
	if s.GetL2Traffic() != nil {
		frames, err := v.ifs.CarriesFrames(ctx, t.iface)
		if err == nil && !frames { // VPP 25.10 ends
			err = vswitch.Unsupported("l2_traffic: interface %q carries no Ethernet frames: steer its packets with l3_traffic", s.GetL2Traffic().GetInterfaceName())
		}
		if err != nil {
			return err
		}
	}
	v.sr.Lock()
	defer v.sr.Unlock()
	if other := v.sr.names[t]; other != "" && other != s.GetName() {
		return fmt.Errorf("steering %q is for the same traffic: remove one of them", other)
	}
	policies, err := session.Dump[sr.SrPoliciesV2Details](ctx, v.vpp, module, &sr.SrPoliciesV2Dump{})
	if err != nil {
		return err
	}
	bsid := address6(s.GetPolicyBsid())
	i := slices.IndexFunc(policies, func(p *sr.SrPoliciesV2Details) bool { return p.Bsid == bsid })
	switch {
	case i < 0:
		return fmt.Errorf("no such policy")
	case !policies[i].IsEncap && !t.network.IsValid():
		return vswitch.Unsupported("frames in a policy that adds a header to packets: set its srh_encapsulation")
	case !policies[i].IsEncap && t.network.Addr().Is4():
		return vswitch.Unsupported("IPv4 packets in a policy that adds a header to IPv6 packets: set its srh_encapsulation")
	}
	if err := v.vpp.Call(ctx, module, t.request(bsid, false), &sr.SrSteeringAddDelReply{}); err != nil {
		return err
	}
	v.note(t, s.GetName())
	return nil
}

// note records the name of the steering of the traffic; "" removes it.
func (v srSteerings) note(t traffic, name string) {
	if v.sr.names == nil {
		v.sr.names = map[traffic]string{}
	}
	v.sr.names[t] = name
}

func nameOfTraffic(s *vpp_srv6.Steering) string {
	if l2 := s.GetL2Traffic(); l2 != nil {
		return "packets of interface " + l2.GetInterfaceName() + " receives"
	}
	return s.GetL3Traffic().GetPrefixAddress()
}

func (v srSteerings) Delete(ctx context.Context, s *vpp_srv6.Steering) error {
	if err := v.unset(ctx, s); err != nil {
		return fmt.Errorf("ending the steering of %s: %w", nameOfTraffic(s), err)
	}
	return nil
}

func (v srSteerings) unset(ctx context.Context, s *vpp_srv6.Steering) error {
	v.sr.Lock()
	defer v.sr.Unlock()
	all, err := session.Dump[sr.SrSteeringPolDetails](ctx, v.vpp, module, &sr.SrSteeringPolDump{})
	if err != nil {
		return err
	}
	t, err := v.trafficOf(ctx, s)
	if ownership.IsNoInterface(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, d := range all {
		if parseTraffic(d) != t {
			continue
		}
		err := v.vpp.Call(ctx, module, steeringRequest(d, true), &sr.SrSteeringAddDelReply{})
		if err != nil && !vppapi.Refused(err, srNoSteering) {
			return err
		}
	}
	v.note(t, "")
	return nil
}

// List: VPP stores no names.
func (v srSteerings) List(ctx context.Context, expected []*vpp_srv6.Steering) ([]*vpp_srv6.Steering, error) {
	all, err := session.Dump[sr.SrSteeringPolDetails](ctx, v.vpp, module, &sr.SrSteeringPolDump{})
	if err != nil {
		return nil, fmt.Errorf("listing steerings: %w", err)
	}
	wanted := map[traffic]*vpp_srv6.Steering{}
	for _, s := range expected {
		if t, err := v.trafficOf(ctx, s); err == nil {
			wanted[t] = s
		} else if !ownership.IsNoInterface(err) {
			return nil, fmt.Errorf("listing steerings: %w", err)
		}
	}
	list := make([]*vpp_srv6.Steering, 0, len(all))
	for _, d := range all {
		s, err := v.describe(ctx, parseTraffic(d))
		if err != nil {
			return nil, fmt.Errorf("listing steerings: %w", err)
		}
		if want := wanted[parseTraffic(d)]; want != nil {
			s = proto.CloneOf(want)
		}
		s.PolicyRef = &vpp_srv6.Steering_PolicyBsid{PolicyBsid: netip.AddrFrom16(d.Bsid).String()}
		list = append(list, s)
	}
	return list, nil
}

func (v srSteerings) describe(ctx context.Context, t traffic) (*vpp_srv6.Steering, error) {
	if t.network.IsValid() {
		return &vpp_srv6.Steering{Name: fmt.Sprintf("%s%s-%d", ownership.UnknownPrefix, t.network, t.vrf), Traffic: &vpp_srv6.Steering_L3Traffic_{
			L3Traffic: &vpp_srv6.Steering_L3Traffic{PrefixAddress: t.network.String(), InstallationVrfId: t.vrf}}}, nil
	}
	name, err := v.ifs.AnyName(ctx, t.iface)
	return &vpp_srv6.Steering{Name: ownership.UnknownPrefix + name, Traffic: &vpp_srv6.Steering_L2Traffic_{
		L2Traffic: &vpp_srv6.Steering_L2Traffic{InterfaceName: name}}}, err
}
