package kernel

import (
	"context"

	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/vswitch"
	"google.golang.org/protobuf/proto"
)

func (v *VSwitch) SRv6() vswitch.SRv6 { return srv6{v} }

type srv6 struct{ *VSwitch }

func (v srv6) LocalSIDs() vswitch.Values[*vpp_srv6.LocalSID] { return noSRv6[*vpp_srv6.LocalSID]{} }
func (v srv6) Policies() vswitch.Values[*vpp_srv6.Policy]    { return noSRv6[*vpp_srv6.Policy]{} }
func (v srv6) Steerings() vswitch.Values[*vpp_srv6.Steering] { return noSRv6[*vpp_srv6.Steering]{} }
func (v srv6) Globals() vswitch.Values[*vpp_srv6.SRv6Global] { return noSRv6[*vpp_srv6.SRv6Global]{} }

// noSRv6 has no values.
type noSRv6[V proto.Message] struct{}

func (noSRv6[V]) Create(context.Context, V) error {
	return vswitch.Unsupported("segment routing is not available on this vswitch")
}
func (noSRv6[V]) Delete(context.Context, V) error        { return nil }
func (noSRv6[V]) List(context.Context, []V) ([]V, error) { return nil, nil }
