package fake

import (
	"context"
	"net/netip"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/internal/vswitch"
)

type nat66 struct{ v *VSwitch }

func nat66Table(n *Node) map[string]*contiv_nat.SourceNAT66 { return n.nat66 }

func (p nat66) Create(ctx context.Context, s *contiv_nat.SourceNAT66) error {
	return put(ctx, p.v, s, nat66Table, func(n *Node) error {
		if !n.caps.IPv6SourceNAT {
			return vswitch.Unsupported("NAT66: this vswitch does not translate IPv6 addresses")
		}
		_, err := n.iface(s.GetInterface())
		return err
	})
}

func (p nat66) Delete(ctx context.Context, s *contiv_nat.SourceNAT66) error {
	return drop(ctx, p.v, s, nat66Table)
}

func (p nat66) List(ctx context.Context, _ []*contiv_nat.SourceNAT66) ([]*contiv_nat.SourceNAT66, error) {
	return list(ctx, p.v, nat66Table)
}

// translate66 sets the source of a forwarded packet to the address of its output interface.
func (t *tracer) translate66(n *Node, out string) {
	for _, s := range n.nat66 {
		if addr, err := netip.ParseAddr(s.GetAddress()); err == nil && s.GetInterface() == out && n.ownerOf(t.Src) == "" {
			t.hop(n, "source %s becomes %s", t.Src, addr)
			t.Src = addr
			return
		}
	}
}
