package srv6

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/internal/vswitch"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

type srSteerings srv6

func (v srSteerings) Create(_ context.Context, s *vpp_srv6.Steering) error {
	switch {
	case s.GetL2Traffic() != nil:
		return vswitch.Unsupported("l2_traffic: the Linux kernel puts packets into segments, not frames: steer the networks behind with l3_traffic, " +
			"or bridge the interface with a VXLAN tunnel")
	case s.GetL3Traffic().GetInstallationVrfId() != 0:
		return own.OnlyMain(s.GetL3Traffic().GetInstallationVrfId(), "segment routing")
	}
	if err := v.EnableForwarding6(); err != nil {
		return err
	}
	if err := v.set(s); err != nil {
		return fmt.Errorf("steering %s into policy %s: %w", s.GetL3Traffic().GetPrefixAddress(), s.GetPolicyBsid(), srError(err))
	}
	v.Reg.Put(s)
	return nil
}

func (v srSteerings) set(s *vpp_srv6.Steering) error {
	v.srMu.Lock()
	defer v.srMu.Unlock()
	dst := netip.MustParsePrefix(s.GetL3Traffic().GetPrefixAddress())
	for _, other := range own.All[*vpp_srv6.Steering](v.Reg) {
		if net, err := netip.ParsePrefix(other.GetL3Traffic().GetPrefixAddress()); err == nil && net == dst && other.GetName() != s.GetName() {
			return fmt.Errorf("steering %q is for the same traffic: remove one of them", other.GetName())
		}
	}
	state, err := v.readSR()
	if err != nil {
		return err
	}
	policy, ok := state.route(own.HostPrefix(netip.MustParseAddr(s.GetPolicyBsid())))
	if !ok || policy.nhid&tagMask != policyTag {
		return fmt.Errorf("no such policy")
	}
	return v.setSRRoute(state, srRoute{dst: dst, metric: metricOf(dst), nhid: policy.nhid &^ bound})
}

func (v srSteerings) Delete(_ context.Context, s *vpp_srv6.Steering) error {
	if s.GetL3Traffic() == nil {
		return nil
	}
	err := v.Reg.During(s, func() error {
		dst, err := netip.ParsePrefix(s.GetL3Traffic().GetPrefixAddress())
		if err != nil {
			return err
		}
		return v.deleteRoute(dst, policyTag|steered)
	})
	if err != nil {
		return fmt.Errorf("ending the steering of %s: %w", s.GetL3Traffic().GetPrefixAddress(), err)
	}
	return nil
}

func (r srRoute) isSteering() bool {
	return r.nhid&tagMask == policyTag && r.nhid&(1<<slotShift-1) == steered && r.table == unix.RT_TABLE_MAIN
}

// List takes names from the expected values, because the kernel stores none.
func (v srSteerings) List(_ context.Context, expected []*vpp_srv6.Steering) ([]*vpp_srv6.Steering, error) {
	state, err := v.readSR()
	if err != nil {
		return nil, ignoreNoSegments(err)
	}
	bsids := map[uint32]netip.Addr{}
	for _, r := range state.routes {
		if r.nhid&(tagMask|bound) == policyTag|bound {
			bsids[r.nhid&^bound] = r.dst.Addr()
		}
	}
	wanted := map[netip.Prefix]*vpp_srv6.Steering{}
	for _, s := range expected {
		if dst, err := netip.ParsePrefix(s.GetL3Traffic().GetPrefixAddress()); err == nil {
			wanted[dst] = s
		}
	}
	var list []*vpp_srv6.Steering
	for _, r := range state.routes {
		if !r.isSteering() {
			continue
		}
		s := &vpp_srv6.Steering{
			Name: own.UnknownPrefix + r.dst.String(),
			Traffic: &vpp_srv6.Steering_L3Traffic_{
				L3Traffic: &vpp_srv6.Steering_L3Traffic{PrefixAddress: r.dst.String()}},
		}
		if want := wanted[r.dst]; want != nil {
			s = proto.CloneOf(want)
			s.GetL3Traffic().InstallationVrfId = 0
		}
		s.PolicyRef = &vpp_srv6.Steering_PolicyBsid{PolicyBsid: bsids[r.nhid].String()}
		list = append(list, s)
	}
	own.Settle(v.Reg, expected, list)
	return list, nil
}
