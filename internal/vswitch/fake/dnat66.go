package fake

import (
	"context"
	"fmt"
	"slices"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

type dnat66 struct{ v *VSwitch }

func dnat66Table(n *Node) map[string]*contiv_nat.DNat66 { return n.dnat66 }

func (p dnat66) Set(ctx context.Context, values ...*contiv_nat.DNat66) error {
	return p.v.do(ctx, func(n *Node) error {
		if !n.caps.IPv6DNAT {
			return vswitch.Unsupported("DNat66: this vswitch does not translate IPv6 addresses")
		}
		for _, v := range values {
			if err := n.checkDNAT66(v); err != nil {
				return fmt.Errorf("DNAT66 %q: %w", v.GetLabel(), err)
			}
		}
		for _, v := range values {
			n.dnat66[models.Key(v)] = proto.CloneOf(v)
		}
		return nil
	})
}

func (n *Node) checkDNAT66(v *contiv_nat.DNat66) error {
	for _, m := range vswitch.DNAT66AsDNAT44(v).GetStMappings() {
		for _, other := range n.dnat66 {
			if other.GetLabel() != v.GetLabel() &&
				slices.ContainsFunc(vswitch.DNAT66AsDNAT44(other).GetStMappings(), func(o *staticMapping) bool { return sameExternal(m, o) }) {
				return fmt.Errorf("%s port %d is mapped already by the DNat66 value %q", m.GetExternalIp(), m.GetExternalPort(), other.GetLabel())
			}
		}
	}
	return nil
}

func (p dnat66) Remove(ctx context.Context, values ...*contiv_nat.DNat66) error {
	return p.v.do(ctx, func(n *Node) error {
		for _, v := range values {
			delete(n.dnat66, models.Key(v))
		}
		return nil
	})
}

func (p dnat66) List(ctx context.Context, _ []*contiv_nat.DNat66) ([]*contiv_nat.DNat66, error) {
	return list(ctx, p.v, dnat66Table)
}
