package nat

import (
	"context"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/internal/vswitch"
)

// NAT66 refuses all values: VPP lacks the feature. Its plugin nat66 translates single addresses one
// to one. CNAT also changes the source of replies to external clients, which breaks their
// connections.
type NAT66 struct{}

func (NAT66) Create(_ context.Context, s *contiv_nat.SourceNAT66) error {
	return vswitch.Unsupported("VPP 25.10 cannot give IPv6 packets that leave %q the source %s without breaking connections from outside: use addresses of pods that are routed", s.GetInterface(), s.GetAddress())
}

func (NAT66) Delete(context.Context, *contiv_nat.SourceNAT66) error { return nil }

func (NAT66) List(context.Context, []*contiv_nat.SourceNAT66) ([]*contiv_nat.SourceNAT66, error) {
	return nil, nil
}
