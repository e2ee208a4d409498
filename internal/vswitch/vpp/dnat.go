package vpp

import (
	"context"
	"errors"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch/vpp/cnat"
	"github.com/contiv/contiv/internal/vswitch/vpp/nat"
)

// natPort implements NAT44 with the plugin nat44-ed, except for DNat44 values that are services,
// which use cnat.
//
// nat44-ed translates behind access lists, which would see service addresses where policies refer
// to endpoints. It also supports neither SCTP nor source NAT for some clients only.
type natPort struct {
	*nat.NAT
	services cnat.Services44
}

// split separates the values for nat44-ed from services.
func split(values []*vpp_nat.DNat44) (plain, services []*vpp_nat.DNat44) {
	for _, v := range values {
		if cnat.IsService(v) {
			services = append(services, v)
		} else {
			plain = append(plain, v)
		}
	}
	return plain, services
}

// SetDNAT also removes the other plugin's mappings of the labels, whose values may have been of the
// other kind. If one plugin fails, the other's changes remain; the caller then sets each value
// separately.
func (n natPort) SetDNAT(ctx context.Context, values ...*vpp_nat.DNat44) error {
	plain, services := split(values)
	if len(services) > 0 {
		if err := errors.Join(n.NAT.RemoveDNAT(ctx, services...), n.services.Set(ctx, services...)); err != nil {
			return err
		}
	}
	if len(plain) == 0 {
		return nil
	}
	if err := n.services.Remove(ctx, plain...); err != nil {
		return err
	}
	return n.NAT.SetDNAT(ctx, plain...)
}

// RemoveDNAT removes the labels from both plugins.
func (n natPort) RemoveDNAT(ctx context.Context, values ...*vpp_nat.DNat44) error {
	return errors.Join(n.services.Remove(ctx, values...), n.NAT.RemoveDNAT(ctx, values...))
}

// ListDNAT reports a label in both plugins once, as different from any value.
func (n natPort) ListDNAT(ctx context.Context, expected []*vpp_nat.DNat44) ([]*vpp_nat.DNat44, error) {
	plain, services := split(expected)
	found, err := n.NAT.ListDNAT(ctx, plain)
	if err != nil {
		return nil, err
	}
	translated, err := n.services.List(ctx, services)
	if err != nil {
		return nil, err
	}
	isService := map[string]bool{}
	for _, v := range services {
		isService[v.GetLabel()] = true
	}
	at := map[string]int{}
	for i, v := range found {
		at[v.GetLabel()] = i
	}
	for _, v := range translated {
		same, both := at[v.GetLabel()]
		switch {
		case !both:
			found = append(found, v)
		case !isService[v.GetLabel()]:
			found[same] = v
		}
	}
	return found, nil
}
