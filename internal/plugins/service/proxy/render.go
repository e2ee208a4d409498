package proxy

import (
	"github.com/contiv/contiv/internal/plugins/service/localnode"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"github.com/contiv/contiv/internal/plugins/service/renderer/nat"
	"google.golang.org/protobuf/proto"
)

// translation is the result for a service of both IP versions.
type translation struct {
	values     map[string]proto.Message
	limits     limits
	restricted []processor.Frontend // with sources that the mappings do not restrict
	direct     []processor.Served   // local endpoints that see external clients
	carried    carriage
}

// renderer computes translations. It changes no state.
type renderer struct {
	node      *localnode.Node
	services  *processor.Processor
	entrances *Entrances
	segments  *segments
}

// version is an IP version of a service.
type version struct {
	all  *processor.Service
	rest *processor.Service // translated by NAT
}

// render returns the translation of a service. The host redirects its own addresses, segments carry
// addresses if possible, and NAT translates the rest.
func (r *renderer) render(id processor.ID) *translation {
	t := &translation{values: map[string]proto.Message{}}
	options := r.natOptions()
	var versions []version
	for _, ipv6 := range []bool{false, true} {
		all := r.services.Service(id, ipv6)
		if all == nil {
			continue
		}
		r.entrances.redirect(all, ipv6, t.values)
		rest := r.segments.carry(all.WithoutHost(), t)
		versions = append(versions, version{all, rest})
		if len(rest.Frontends) == 0 {
			continue
		}
		if !r.node.Caps.ClientScopes {
			t.restricted = append(t.restricted, rest.Restricted()...)
		}
		if r.node.RepliesBypassVRF0() {
			t.direct = append(t.direct, r.services.Direct(rest, ipv6)...)
		}
		t.values[nat.Key(id, ipv6)] = nat.Render(rest, ipv6, options)
	}
	t.limits = r.limits(id, versions)
	return t
}

func (r *renderer) natOptions() nat.Options {
	o, settings := r.node.NATOptions(), r.node.Settings
	o.LocalWeight, o.ResetRemoved = uint32(settings.LocalEndpointWeight), settings.ResetRemovedEndpoints && r.node.Caps.ResetsConnections
	return o
}
