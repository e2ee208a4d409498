package fake

import (
	"context"
	"fmt"
	"net/netip"

	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

func (v *VSwitch) SRv6() vswitch.SRv6 { return srv6{v} }

type srv6 struct{ v *VSwitch }

func (p srv6) LocalSIDs() vswitch.Values[*vpp_srv6.LocalSID] {
	return srv6Values[*vpp_srv6.LocalSID]{features[*vpp_srv6.LocalSID](p), (*Node).checkLocalSID}
}

func (p srv6) Policies() vswitch.Values[*vpp_srv6.Policy] {
	return srv6Values[*vpp_srv6.Policy]{features[*vpp_srv6.Policy](p), func(n *Node, policy *vpp_srv6.Policy) error {
		return n.checkVRF(policy.GetInstallationVrfId(), true)
	}}
}

func (p srv6) Steerings() vswitch.Values[*vpp_srv6.Steering] {
	return srv6Values[*vpp_srv6.Steering]{features[*vpp_srv6.Steering](p), (*Node).checkSteering}
}

func (p srv6) Globals() vswitch.Values[*vpp_srv6.SRv6Global] {
	return srv6Values[*vpp_srv6.SRv6Global]{features[*vpp_srv6.SRv6Global](p), func(*Node, *vpp_srv6.SRv6Global) error { return nil }}
}

// srv6Values are features with further dependencies.
type srv6Values[V proto.Message] struct {
	features[V]
	check func(*Node, V) error
}

func (p srv6Values[V]) Create(ctx context.Context, value V) error {
	err := p.v.do(ctx, func(n *Node) error { return p.check(n, value) })
	if err != nil {
		return fmt.Errorf("create %s: %w", models.Key(value), err)
	}
	return p.features.Create(ctx, value)
}

func (n *Node) checkLocalSID(s *vpp_srv6.LocalSID) error {
	if err := n.checkVRF(s.GetInstallationVrfId(), true); err != nil && s.GetEndFunctionAd() == nil {
		return err
	}
	switch f := s.GetEndFunction().(type) {
	case *vpp_srv6.LocalSID_EndFunctionT:
		return n.checkVRF(f.EndFunctionT.GetVrfId(), true)
	case *vpp_srv6.LocalSID_EndFunctionDt4:
		return n.checkVRF(f.EndFunctionDt4.GetVrfId(), false)
	case *vpp_srv6.LocalSID_EndFunctionDt6:
		return n.checkVRF(f.EndFunctionDt6.GetVrfId(), true)
	}
	return nil
}

func (n *Node) checkSteering(s *vpp_srv6.Steering) error {
	if n.policy(s.GetPolicyBsid()) == nil {
		return fmt.Errorf("policy %s does not exist", s.GetPolicyBsid())
	}
	l3 := s.GetL3Traffic()
	return n.checkVRF(l3.GetInstallationVrfId(), isIPv6(l3.GetPrefixAddress()))
}

// policy returns the policy with the binding SID, in any notation.
func (n *Node) policy(bsid string) *vpp_srv6.Policy {
	addr, err := netip.ParseAddr(bsid)
	if err != nil {
		return nil
	}
	for _, v := range n.features {
		if p, ok := v.(*vpp_srv6.Policy); ok && sameAddr(p.GetBsid(), addr) {
			return p
		}
	}
	return nil
}

func sameAddr(text string, addr netip.Addr) bool {
	a, err := netip.ParseAddr(text)
	return err == nil && a == addr
}

func interfacesOfSRv6(v proto.Message) []string {
	switch v := v.(type) {
	case *vpp_srv6.Steering:
		if l2 := v.GetL2Traffic(); l2 != nil {
			return []string{l2.GetInterfaceName()}
		}
	case *vpp_srv6.LocalSID:
		switch f := v.GetEndFunction().(type) {
		case *vpp_srv6.LocalSID_EndFunctionX:
			return []string{f.EndFunctionX.GetOutgoingInterface()}
		case *vpp_srv6.LocalSID_EndFunctionDx2:
			return []string{f.EndFunctionDx2.GetOutgoingInterface()}
		case *vpp_srv6.LocalSID_EndFunctionDx4:
			return []string{f.EndFunctionDx4.GetOutgoingInterface()}
		case *vpp_srv6.LocalSID_EndFunctionDx6:
			return []string{f.EndFunctionDx6.GetOutgoingInterface()}
		case *vpp_srv6.LocalSID_EndFunctionAd:
			return []string{f.EndFunctionAd.GetOutgoingInterface(), f.EndFunctionAd.GetIncomingInterface()}
		}
	}
	return nil
}
