package nat

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"google.golang.org/protobuf/proto"
)

// serviceNetworks stores a ServiceNetwork as rules in the tables of both IP versions; their
// comments contain the prefixes.
type serviceNetworks struct{ *Driver }

// ServiceNetworks returns the port for the node's service networks.
func (d *Driver) ServiceNetworks() vswitch.Values[*contiv_nat.ServiceNetwork] {
	return serviceNetworks{d}
}

func (v serviceNetworks) Create(_ context.Context, value *contiv_nat.ServiceNetwork) error {
	for _, f := range []*natFamily{nat4, nat6} {
		if err := v.set(f, networkOf(f, value)); err != nil {
			return fmt.Errorf("setting the service network: %w", err)
		}
	}
	v.Reg.Put(value)
	return nil
}

func (v serviceNetworks) Delete(_ context.Context, value *contiv_nat.ServiceNetwork) error {
	for _, f := range []*natFamily{nat4, nat6} {
		if err := v.set(f, natNetwork{}); err != nil {
			return fmt.Errorf("removing the service network: %w", err)
		}
	}
	v.Reg.Remove(value)
	return nil
}

func networkOf(f *natFamily, value *contiv_nat.ServiceNetwork) (n natNetwork) {
	value = vswitch.NormalServiceNetwork(value)
	part := func(texts []string) (list []netip.Prefix) {
		for _, text := range texts {
			if p, err := netip.ParsePrefix(text); err == nil && p.Addr().Is6() == (f == nat6) {
				list = append(list, p)
			}
		}
		return list
	}
	return natNetwork{inside: part(value.GetInside()), clusterIPs: part(value.GetServiceSubnets())}
}

func (v serviceNetworks) set(f *natFamily, n natNetwork) error {
	if f == nat4 {
		return v.nat.change(func(s *natState) error {
			s.network = n
			if n.isSet() {
				return v.mustBeEnabled(s)
			}
			return nil
		})
	}
	return v.nat.Locked(func() error {
		s, err := v.nat.readNAT(f)
		switch {
		case err != nil:
			return err
		case !s.enabled && !n.isSet(), s.enabled && s.intact && s.network.equal(n):
			return nil
		}
		s.enabled, s.network = true, n
		b := f.batch()
		s.write(b)
		return v.nat.Commit(b)
	})
}

func (v serviceNetworks) List(_ context.Context, expected []*contiv_nat.ServiceNetwork) ([]*contiv_nat.ServiceNetwork, error) {
	value := &contiv_nat.ServiceNetwork{}
	err := v.nat.Locked(func() error {
		for _, f := range []*natFamily{nat4, nat6} {
			s, err := v.nat.readNAT(f)
			if err != nil {
				return fmt.Errorf("reading nftables table %q: %w", natTable, err)
			}
			if !s.enabled || !s.intact {
				continue
			}
			for _, p := range s.network.inside {
				value.Inside = append(value.Inside, p.String())
			}
			for _, p := range s.network.clusterIPs {
				value.ServiceSubnets = append(value.ServiceSubnets, p.String())
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var list []*contiv_nat.ServiceNetwork
	switch same := slices.IndexFunc(expected, func(e *contiv_nat.ServiceNetwork) bool {
		// Unused here: addresses distinguish clients, and routes the interfaces of pods.
		value.OutsideInterfaces, value.Overlay, value.Uplinks = e.GetOutsideInterfaces(), e.GetOverlay(), e.GetUplinks()
		return proto.Equal(vswitch.NormalServiceNetwork(e), vswitch.NormalServiceNetwork(value))
	}); {
	case same >= 0:
		list = append(list, expected[same])
	case len(value.GetInside())+len(value.GetServiceSubnets()) > 0:
		list = append(list, value)
	}
	own.Settle(v.Reg, expected, list)
	return list, nil
}

type natNetwork struct{ inside, clusterIPs []netip.Prefix }

func (n natNetwork) isSet() bool { return len(n.inside)+len(n.clusterIPs) > 0 }

func (n natNetwork) equal(o natNetwork) bool {
	return slices.Equal(n.inside, o.inside) && slices.Equal(n.clusterIPs, o.clusterIPs)
}

func (n *natNetwork) read(chain, comment string) {
	if chain != chainServices {
		return
	}
	for mark, list := range map[string]*[]netip.Prefix{commentInside: &n.inside, commentClusters: &n.clusterIPs} {
		if text, ok := strings.CutPrefix(comment, mark); ok {
			if p, err := netip.ParsePrefix(text); err == nil {
				*list = append(*list, p)
			}
		}
	}
}
