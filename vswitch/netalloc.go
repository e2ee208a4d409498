package vswitch

import (
	"context"
	"net/netip"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/netalloc"
	"google.golang.org/protobuf/proto"
)

// allocated stands between a descriptor and a port: the port gets values with
// addresses in the place of references to allocated ones, the scheduler sees the
// references again.
type allocated[V proto.Message] struct {
	// resolve returns the value with addresses; the value itself if it has no
	// references.
	resolve func(V) (V, error)
	// restore writes what was found, and is what a wanted value resolved to, in
	// the words of the wanted one.
	restore func(found, resolved, wanted V)
}

func (a allocated[V]) create(do func(context.Context, V) error) func(context.Context, string, V) (noMeta, error) {
	return func(ctx context.Context, _ string, v V) (none noMeta, err error) {
		if v, err = a.resolve(v); err != nil {
			return none, err
		}
		return none, do(ctx, v)
	}
}

func (a allocated[V]) update(do func(context.Context, V, V) error) func(context.Context, string, V, V, noMeta) (noMeta, error) {
	return func(ctx context.Context, _ string, old, new V, none noMeta) (_ noMeta, err error) {
		if old, err = a.resolve(old); err != nil {
			return none, err
		}
		if new, err = a.resolve(new); err != nil {
			return none, err
		}
		return none, do(ctx, old, new)
	}
}

// remove has nothing to do for a value that was never resolved.
func (a allocated[V]) remove(do func(context.Context, V) error) func(context.Context, string, V, noMeta) error {
	return func(ctx context.Context, _ string, v V, _ noMeta) error {
		v, err := a.resolve(v)
		if err != nil {
			return nil
		}
		return do(ctx, v)
	}
}

func (a allocated[V]) retrieve(list func(context.Context, []V) ([]V, error)) func(context.Context, []item[V]) ([]item[V], error) {
	type pair struct{ resolved, wanted V }
	return func(ctx context.Context, expected []item[V]) ([]item[V], error) {
		pairs := make(map[string]pair, len(expected)) // by the key of the resolved value
		values := make([]V, 0, len(expected))
		for _, it := range expected {
			v, err := a.resolve(it.Value)
			if err != nil {
				continue // without its allocation it does not exist
			}
			pairs[models.Key(v)] = pair{v, it.Value}
			values = append(values, v)
		}
		found, err := list(ctx, values)
		if err != nil {
			return nil, err
		}
		for i, v := range found {
			if p, ok := pairs[models.Key(v)]; ok {
				found[i] = proto.CloneOf(v)
				a.restore(found[i], p.resolved, p.wanted)
			}
		}
		return itemsOf(found), nil
	}
}

// allocatedInterfaces resolves the addresses of interfaces. An address whose
// allocation is missing is left out: the address waits for it, not the interface.
func allocatedInterfaces(r *netalloc.Resolver) allocated[*vpp_interfaces.Interface] {
	return allocated[*vpp_interfaces.Interface]{
		resolve: func(v *vpp_interfaces.Interface) (*vpp_interfaces.Interface, error) {
			if !netalloc.HasRef(v.GetIpAddresses()...) {
				return v, nil
			}
			v = proto.CloneOf(v)
			v.IpAddresses = r.Addresses(v.GetIpAddresses(), v.GetName())
			return v, nil
		},
		restore: func(found, _, wanted *vpp_interfaces.Interface) {
			found.IpAddresses = r.Restore(found.GetIpAddresses(), wanted.GetIpAddresses(), found.GetName())
		},
	}
}

func allocatedRoutes(r *netalloc.Resolver) allocated[*vpp_l3.Route] {
	return allocated[*vpp_l3.Route]{
		resolve: func(v *vpp_l3.Route) (_ *vpp_l3.Route, err error) {
			if isUnspecified(v.GetNextHopAddr()) { // is how clients write that there is none
				v = proto.CloneOf(v)
				v.NextHopAddr = ""
			}
			if !netalloc.HasRef(v.GetDstNetwork(), v.GetNextHopAddr()) {
				return v, nil
			}
			v = proto.CloneOf(v)
			if v.DstNetwork, err = r.Network(v.GetDstNetwork(), ""); err != nil {
				return nil, err
			}
			if v.NextHopAddr, err = r.Addr(v.GetNextHopAddr(), v.GetOutgoingInterface()); err != nil {
				return nil, err
			}
			return v, validateRoute(v)
		},
		restore: func(found, resolved, wanted *vpp_l3.Route) {
			netalloc.Put(&found.DstNetwork, resolved.GetDstNetwork(), wanted.GetDstNetwork())
			netalloc.Put(&found.NextHopAddr, resolved.GetNextHopAddr(), wanted.GetNextHopAddr())
			if isUnspecified(wanted.GetNextHopAddr()) && found.GetNextHopAddr() == "" {
				found.NextHopAddr = wanted.GetNextHopAddr()
			}
		},
	}
}

func isUnspecified(text string) bool {
	addr, err := netip.ParseAddr(text)
	return err == nil && addr.IsUnspecified()
}

func allocatedARPs(r *netalloc.Resolver) allocated[*vpp_l3.ARPEntry] {
	return allocated[*vpp_l3.ARPEntry]{
		resolve: func(v *vpp_l3.ARPEntry) (_ *vpp_l3.ARPEntry, err error) {
			if !netalloc.HasRef(v.GetIpAddress()) {
				return v, nil
			}
			v = proto.CloneOf(v)
			v.IpAddress, err = r.Addr(v.GetIpAddress(), "")
			return v, err
		},
		restore: func(found, resolved, wanted *vpp_l3.ARPEntry) {
			netalloc.Put(&found.IpAddress, resolved.GetIpAddress(), wanted.GetIpAddress())
		},
	}
}

func validAddrOrRef(field, text string) error {
	if !netalloc.IsRef(text) {
		return validAddr(field, text)
	}
	if _, err := netalloc.ParseRef(text, ""); err != nil {
		return invalid(field, "%w", err)
	}
	return nil
}

func isIPv6Network(text string) bool {
	prefix, err := netip.ParsePrefix(text)
	return err == nil && prefix.Addr().Is6()
}

// inTable waits for the VRF table that a route is in, of the IP version that the
// route has. References leave it open: then one of the tables must be there.
func inTable(label string, vrf uint32, dst, gw string) kvscheduler.Dependency {
	switch {
	case !netalloc.IsRef(dst):
		return kvscheduler.Dependency{Label: label, Key: models.VRFTableKey(vrf, isIPv6Network(dst))}
	case gw != "" && !netalloc.IsRef(gw):
		return kvscheduler.Dependency{Label: label, Key: models.VRFTableKey(vrf, isIPv6(gw))}
	}
	return kvscheduler.Dependency{Label: label, AnyOf: kvscheduler.AnyOf{
		KeyPrefixes: []string{models.VRFTableKey(vrf, false), models.VRFTableKey(vrf, true)},
	}}
}
