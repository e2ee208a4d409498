package fake

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/guard"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

func (v *VSwitch) XConnects() vswitch.Values[*vpp_l2.XConnectPair] {
	return features[*vpp_l2.XConnectPair]{v}
}

func (v *VSwitch) Spans() vswitch.Values[*vpp_interfaces.Span] {
	return features[*vpp_interfaces.Span]{v}
}

func (v *VSwitch) L3XConnects() vswitch.Values[*vpp_l3.L3XConnect] {
	return features[*vpp_l3.L3XConnect]{v}
}

// features stores the values of a feature, without effect on traced packets.
type features[V proto.Message] struct{ v *VSwitch }

func (p features[V]) table(n *Node) map[string]V {
	values := map[string]V{}
	for key, value := range n.features {
		if typed, ok := value.(V); ok {
			values[key] = typed
		}
	}
	return values
}

func (p features[V]) Create(ctx context.Context, value V) error {
	return p.v.do(ctx, func(n *Node) error {
		for _, name := range interfacesOf(value) {
			if _, err := n.iface(name); err != nil {
				return fmt.Errorf("create %s: %w", models.Key(value), err)
			}
		}
		n.features[models.Key(value)] = proto.Clone(value)
		return nil
	})
}

func (p features[V]) Delete(ctx context.Context, value V) error {
	return p.v.do(ctx, func(n *Node) error {
		delete(n.features, models.Key(value))
		return nil
	})
}

func (p features[V]) List(ctx context.Context, _ []V) ([]V, error) { return list(ctx, p.v, p.table) }

// sourceGuards are stored like features, but do not need their interface.
type sourceGuards struct{ features[*guard.SourceGuard] }

func (v *VSwitch) SourceGuards() vswitch.SourceGuards {
	if !v.n.caps.SourceGuards {
		return nil
	}
	return sourceGuards{features[*guard.SourceGuard]{v}}
}

func (sourceGuards) Drops(context.Context) ([]vswitch.Drop, error) { return nil, nil }

// SourceRanges restrict the frontends of traced packets from guarded interfaces and one further
// interface. A vswitch with mappings by source has none.
func (v *VSwitch) SourceRanges() vswitch.Values[*guard.SourceRanges] {
	if !v.n.caps.SourceGuards || v.n.caps.ClientScopes {
		return nil
	}
	return features[*guard.SourceRanges]{v}
}

// inRanges ends the trace of a packet to a forbidden frontend.
func (t *tracer) inRanges(n *Node, in string) bool {
	ranges, ok := n.features[models.SourceRanges.KeyPrefix()].(*guard.SourceRanges)
	if !ok || n.features[models.SourceGuard.KeyPrefix()+in] == nil && ranges.GetInterface() != in {
		return true
	}
	to := netip.AddrPortFrom(t.dst, t.packet.DstPort)
	for _, f := range vswitch.RestrictedFrontends(ranges) {
		if f.Addr == to && f.Protocol == t.packet.Protocol && !f.Allows(t.Src) {
			t.drop(n, "%s may not use %s port %d", t.Src, t.dst, t.packet.DstPort)
			return false
		}
	}
	return true
}

// proxyARP stores the interfaces separately from the ranges.
type proxyARP struct{ features[*vpp_l3.ProxyARP] }

func (v *VSwitch) ProxyARP() vswitch.ProxyARP { return proxyARP{features[*vpp_l3.ProxyARP]{v}} }

func (p proxyARP) Create(ctx context.Context, value *vpp_l3.ProxyARP) error {
	return p.v.do(ctx, func(n *Node) error {
		key := models.ProxyARP.KeyPrefix()
		was, _ := n.features[key].(*vpp_l3.ProxyARP)
		n.features[key] = &vpp_l3.ProxyARP{Ranges: proto.CloneOf(value).GetRanges(), Interfaces: was.GetInterfaces()}
		return nil
	})
}

func (p proxyARP) AddInterface(ctx context.Context, name string) error {
	return p.v.do(ctx, func(n *Node) error {
		value, _ := n.features[models.ProxyARP.KeyPrefix()].(*vpp_l3.ProxyARP)
		if _, err := n.iface(name); err != nil || value == nil {
			return fmt.Errorf("proxy ARP on interface %q: the interface or the ranges do not exist", name)
		}
		n.removeProxyARP(name)
		value.Interfaces = append(value.Interfaces, &vpp_l3.ProxyARP_Interface{Name: name})
		return nil
	})
}

func (p proxyARP) RemoveInterface(ctx context.Context, name string) error {
	return p.v.do(ctx, func(n *Node) error {
		n.removeProxyARP(name)
		return nil
	})
}

func (n *Node) removeProxyARP(name string) {
	if value, ok := n.features[models.ProxyARP.KeyPrefix()].(*vpp_l3.ProxyARP); ok {
		value.Interfaces = slices.DeleteFunc(value.Interfaces, func(i *vpp_l3.ProxyARP_Interface) bool { return i.GetName() == name })
	}
}

func interfacesOf(v proto.Message) []string {
	if names := vswitch.InterfacesOfFeature(v); names != nil {
		return names
	}
	return interfacesOfSRv6(v)
}

// Lacks: the fake has the features of the kernel.
func (v *VSwitch) Lacks(descriptor string) string {
	return "values of " + descriptor + ": not supported by the fake vswitch"
}
