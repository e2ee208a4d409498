package vpp

import (
	"context"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/vswitch"
)

type dnat66 struct{ *VSwitch }

// DNAT66 is the plugin cnat.
func (v *VSwitch) DNAT66() vswitch.DNAT66 { return dnat66{v} }

func (dnat66) Set(context.Context, ...*contiv_nat.DNat66) error {
	return vswitch.Unsupported("DNat66 on VPP")
}

func (dnat66) Remove(context.Context, ...*contiv_nat.DNat66) error { return nil }

func (dnat66) List(context.Context, []*contiv_nat.DNat66) ([]*contiv_nat.DNat66, error) {
	return nil, nil
}
