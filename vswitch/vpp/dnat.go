package vpp

import (
	"context"
	"errors"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/vswitch/vpp/cnat"
	"github.com/contiv/contiv/vswitch/vpp/nat"
)

// natPort is NAT44 by the plugin nat44-ed, but for those DNat44 values that are services:
// they are translated by cnat.
//
// nat44-ed translates behind access lists, which would see the addresses of services where
// policies are about endpoints, and knows neither SCTP nor a source for some clients only.
type natPort struct {
	*nat.NAT
	services cnat.Services44
}

// split returns the values that nat44-ed is for, and those that are services.
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

// SetDNAT also removes what the other plugin has under the labels, which may have been
// something else before. If one plugin refuses, the other one keeps what it has done: who
// asks for several values then asks for each.
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

// RemoveDNAT removes what either plugin has under the labels.
func (n natPort) RemoveDNAT(ctx context.Context, values ...*vpp_nat.DNat44) error {
	return errors.Join(n.services.Remove(ctx, values...), n.NAT.RemoveDNAT(ctx, values...))
}

// ListDNAT: a label that both plugins have is found once, as what it should not be.
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
