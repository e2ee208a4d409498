package neighbours

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"go.fd.io/govpp/binapi/ip_neighbor"
	"google.golang.org/protobuf/proto"
)

var agingModule = session.NewModule("", "ageing of neighbours",
	&ip_neighbor.IPNeighborConfig{}, &ip_neighbor.IPNeighborConfigReply{},
	&ip_neighbor.IPNeighborConfigGet{}, &ip_neighbor.IPNeighborConfigGetReply{},
)

// Scans sets the neighbour age: VPP probes neighbours not heard of for the stale threshold and
// forgets those that do not answer. It has no scans for the other parameters.
type Scans struct {
	subsystem.Base
	vpp *session.Session
}

func NewScans(vpp *session.Session) *Scans {
	return &Scans{Base: subsystem.Base{Uses: []*session.Module{agingModule}}, vpp: vpp}
}

const secondsPerMinute = 60

func (v *Scans) Create(ctx context.Context, s *vpp_l3.IPScanNeighbor) error {
	minutes := vswitch.StaleThreshold(s)
	if minutes > math.MaxUint32/secondsPerMinute {
		return vswitch.Unsupported("stale_threshold %d: use at most %d minutes", minutes, math.MaxUint32/secondsPerMinute)
	}
	return v.setAges(ctx, s.GetMode(), minutes*secondsPerMinute)
}

func (v *Scans) Delete(ctx context.Context, _ *vpp_l3.IPScanNeighbor) error {
	return v.setAges(ctx, vpp_l3.IPScanNeighbor_DISABLED, 0)
}

func (v *Scans) setAges(ctx context.Context, mode vpp_l3.IPScanNeighbor_Mode, seconds uint32) error {
	both := mode == vpp_l3.IPScanNeighbor_BOTH
	err := errors.Join(
		v.setAge(ctx, false, both || mode == vpp_l3.IPScanNeighbor_IPV4, seconds),
		v.setAge(ctx, true, both || mode == vpp_l3.IPScanNeighbor_IPV6, seconds),
	)
	if err != nil {
		return fmt.Errorf("setting the age of neighbours: %w", err)
	}
	return nil
}

// setAge keeps the limits of the numbers of neighbours.
func (v *Scans) setAge(ctx context.Context, ipv6, aged bool, seconds uint32) error {
	now, err := v.config(ctx, ipv6)
	if err != nil {
		return err
	}
	if !aged {
		seconds = 0
	}
	if now.MaxAge == seconds {
		return nil
	}
	return v.vpp.Call(ctx, agingModule, &ip_neighbor.IPNeighborConfig{
		Af: convert.Family(ipv6), MaxNumber: now.MaxNumber, MaxAge: seconds, Recycle: now.Recycle,
	}, &ip_neighbor.IPNeighborConfigReply{})
}

func (v *Scans) config(ctx context.Context, ipv6 bool) (*ip_neighbor.IPNeighborConfigGetReply, error) {
	var now ip_neighbor.IPNeighborConfigGetReply
	err := v.vpp.Call(ctx, agingModule, &ip_neighbor.IPNeighborConfigGet{Af: convert.Family(ipv6)}, &now)
	return &now, err
}

// List reports an age that no value can have as an impossible threshold.
func (v *Scans) List(ctx context.Context, expected []*vpp_l3.IPScanNeighbor) ([]*vpp_l3.IPScanNeighbor, error) {
	v4, err := v.config(ctx, false)
	v6, err2 := v.config(ctx, true)
	if err := errors.Join(err, err2); err != nil {
		return nil, fmt.Errorf("reading the age of neighbours: %w", err)
	}
	s := &vpp_l3.IPScanNeighbor{}
	if len(expected) > 0 {
		s = proto.CloneOf(expected[0])
	} else if v4.MaxAge == 0 && v6.MaxAge == 0 {
		return nil, nil
	}
	age := max(v4.MaxAge, v6.MaxAge)
	switch {
	case age == 0:
		s.Mode = vpp_l3.IPScanNeighbor_DISABLED
		return []*vpp_l3.IPScanNeighbor{s}, nil
	case v6.MaxAge == 0:
		s.Mode = vpp_l3.IPScanNeighbor_IPV4
	case v4.MaxAge == 0:
		s.Mode = vpp_l3.IPScanNeighbor_IPV6
	default:
		s.Mode = vpp_l3.IPScanNeighbor_BOTH
	}
	differ := s.Mode == vpp_l3.IPScanNeighbor_BOTH && v4.MaxAge != v6.MaxAge
	switch minutes := age / secondsPerMinute; {
	case differ || age%secondsPerMinute != 0:
		s.StaleThreshold = math.MaxUint32
	case minutes != vswitch.StaleThreshold(s):
		s.StaleThreshold = minutes
	}
	return []*vpp_l3.IPScanNeighbor{s}, nil
}
