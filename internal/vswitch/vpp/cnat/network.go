package cnat

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/kvscheduler"
	"google.golang.org/protobuf/proto"
)

// ServiceNetworks implements ServiceNetwork by routes of VRF 0 that answer untranslated packets
// with an ICMP error: routes of cluster IPs, and of the addresses that represent services without
// backends. Interfaces of external clients lack the features.
//
// The routes also record that the value exists: no other part of this driver creates routes of that
// kind.
type ServiceNetworks struct{ *Translations }

var _ vswitch.Values[*contiv_nat.ServiceNetwork] = ServiceNetworks{}

// Create makes or changes the network.
func (v ServiceNetworks) Create(ctx context.Context, n *contiv_nat.ServiceNetwork) error {
	return session.Wrap("setting the service network", v.create(ctx, n))
}

func (v ServiceNetworks) create(ctx context.Context, n *contiv_nat.ServiceNetwork) error {
	v.setOutside(n)
	families, wanted := networkOf(n)
	if err := v.routes.SetRefused(ctx, wanted); err != nil {
		return err
	}
	if err := v.setGuards(ctx, n); err != nil {
		return err
	}
	return v.coverAll(ctx, append(families, v.families()...)...)
}

// Delete removes the routes. Outside interfaces then get the features.
func (v ServiceNetworks) Delete(ctx context.Context, _ *contiv_nat.ServiceNetwork) error {
	v.setOutside(nil)
	err := errors.Join(v.routes.SetRefused(ctx, nil), v.setGuards(ctx, nil))
	if on := v.families(); err == nil && len(on) > 0 {
		err = v.coverAll(ctx, on...)
	}
	if errors.Is(err, kvscheduler.ErrUnsupported) {
		return nil
	}
	return session.Wrap("removing the service network", err)
}

// List returns a network if its routes exist and the interfaces match it.
func (v ServiceNetworks) List(ctx context.Context, expected []*contiv_nat.ServiceNetwork) ([]*contiv_nat.ServiceNetwork, error) {
	refused, err := v.routes.Refused(ctx)
	if errors.Is(err, kvscheduler.ErrUnsupported) || err == nil && len(refused) == 0 {
		if len(expected) > 0 {
			return nil, nil
		}
		return nil, v.setGuards(ctx, nil)
	}
	if err != nil {
		return nil, err
	}
	for _, e := range expected {
		families, wanted := networkOf(e)
		v.setOutside(e)
		covered, err := v.haveFeatures(ctx, families...)
		if err != nil {
			return nil, err
		}
		if covered && slices.Equal(wanted, refused) {
			if err := v.setGuards(ctx, e); err != nil {
				return nil, err
			}
			for _, f := range families {
				v.setOn(f, true)
			}
			return []*contiv_nat.ServiceNetwork{proto.CloneOf(e)}, nil
		}
	}
	found := &contiv_nat.ServiceNetwork{}
	for _, p := range refused {
		if p.Addr() != refuser[familyOf(p.Addr())] {
			found.ServiceSubnets = append(found.ServiceSubnets, p.String())
		}
	}
	return []*contiv_nat.ServiceNetwork{found}, nil
}

// setGuards has uplinks drop the packets of pods. It repairs what differs.
func (v ServiceNetworks) setGuards(ctx context.Context, n *contiv_nat.ServiceNetwork) error {
	n = vswitch.NormalServiceNetwork(n)
	return v.guards.SetNetwork(ctx, n.GetUplinks(), prefixes(n.GetInside()), prefixes(n.GetOverlay()))
}

func prefixes(texts []string) (list []netip.Prefix) {
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil {
			list = append(list, p)
		}
	}
	return list
}

func (v ServiceNetworks) setOutside(n *contiv_nat.ServiceNetwork) {
	v.notes.mu.Lock()
	defer v.notes.mu.Unlock()
	outside := map[string]bool{}
	for _, name := range n.GetOutsideInterfaces() {
		outside[name] = true
	}
	if !maps.Equal(outside, v.notes.outside) {
		v.notes.outside = outside
		v.backendsLeft()
	}
}

// networkOf returns a network's IP versions and its refused networks, in order.
func networkOf(n *contiv_nat.ServiceNetwork) (families []family, refused []netip.Prefix) {
	n = vswitch.NormalServiceNetwork(n)
	for _, texts := range [][]string{n.GetInside(), n.GetServiceSubnets()} {
		for _, text := range texts {
			p, err := netip.ParsePrefix(text)
			if err != nil {
				continue
			}
			if f := familyOf(p.Addr()); !slices.Contains(families, f) {
				families = append(families, f)
				refused = append(refused, netip.PrefixFrom(refuser[f], refuser[f].BitLen()))
			}
		}
	}
	for _, text := range n.GetServiceSubnets() {
		if p, err := netip.ParsePrefix(text); err == nil {
			refused = append(refused, p)
		}
	}
	slices.SortFunc(refused, netip.Prefix.Compare)
	return families, slices.Compact(refused)
}
