package cnat

import (
	"context"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/vswitch"
)

// NoServiceNetworks says that VPP has nothing for contiv.nat.ServiceNetwork.
type NoServiceNetworks struct{}

// Create returns an error that says what to do instead.
func (NoServiceNetworks) Create(context.Context, *contiv_nat.ServiceNetwork) error {
	return vswitch.Unsupported("ServiceNetwork: VPP does not tell clients inside from those outside; put Nat44Interface values for the interfaces")
}

// Delete does nothing.
func (NoServiceNetworks) Delete(context.Context, *contiv_nat.ServiceNetwork) error { return nil }

// List returns none.
func (NoServiceNetworks) List(context.Context, []*contiv_nat.ServiceNetwork) ([]*contiv_nat.ServiceNetwork, error) {
	return nil, nil
}
