package proxy

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// change summarizes an update of services.
type change struct {
	texts     []string
	nodePorts bool // all changed services have node ports
	conflicts bool // one of them has or had a host port of a pod
}

// translateAll renders services and requests the values that differ.
func (p *Proxy) translateAll(ids []processor.ID, txn controller.UpdateOperations) (change, error) {
	c, hostPorts := change{nodePorts: true}, p.inputs.ports.Requested()
	var servers []netip.Addr
	for _, id := range ids {
		text, touched, pods := p.translate(id, txn)
		if text != "" {
			c.texts = append(c.texts, text)
			c.nodePorts = c.nodePorts && p.Services.HasNodePorts(id)
		}
		servers = append(servers, pods...)
		c.conflicts = c.conflicts || slices.ContainsFunc(touched, func(value proto.Message) bool { return hasPort(value, hostPorts) })
	}
	err := p.segments.serveAt(txn, servers)
	p.updateRanges(ids, txn)
	return c, err
}

// translate replaces the translation of a service. It returns a description, the changed values, old
// and new, and the addresses of local pods that segments served before or after.
func (p *Proxy) translate(id processor.ID, txn controller.UpdateOperations) (what string, touched []proto.Message, servers []netip.Addr) {
	before, after := p.translations[id], p.renderer().render(id)
	if before == nil {
		before = &translation{}
	}
	touched = replace(before.values, after.values, txn)
	servers = p.segments.replace(id, before.carried, after.carried)
	if p.translations[id] = after; len(after.values)+len(after.limits)+len(after.carried.translated) == 0 {
		delete(p.translations, id)
	}
	if p.direct[id] = after.direct; len(after.direct) == 0 {
		delete(p.direct, id)
	}
	switch {
	case len(touched) == 0:
	case len(before.values) == 0:
		what = fmt.Sprintf("add service '%s'", id)
	case len(after.values) == 0:
		what = fmt.Sprintf("delete service '%s'", id)
	default:
		what = fmt.Sprintf("update service '%s'", id)
	}
	return what, touched, servers
}

func (p *Proxy) renderer() *renderer {
	return &renderer{node: p.node, services: p.Services, entrances: p.Entrances, segments: p.segments}
}

// updateShared requests the values that all services share. They are never deleted.
func (p *Proxy) updateShared(txn controller.ResyncOperations) {
	network := p.node.ServiceNetwork()
	plan := p.node.Addresses.Plan()
	for _, family := range plan.Families() {
		for _, s := range family.Subnets.Services {
			network.ServiceSubnets = append(network.ServiceSubnets, s.String())
		}
	}
	values := p.replyRoutes()
	if len(network.GetInside())+len(network.GetServiceSubnets()) > 0 {
		values[models.Key(network)] = network
	}
	if pool := p.node.HairpinPool(); pool != nil {
		values[models.Key(pool)] = pool
	}
	for key, value := range values {
		if !proto.Equal(p.shared[key], value) {
			p.shared[key] = proto.CloneOf(value)
			txn.Put(key, value)
		}
	}
}

// replyRoutes returns the routes that lead replies to masqueraded clients into VRF 0, which
// translates them back.
func (p *Proxy) replyRoutes() map[string]proto.Message {
	values := map[string]proto.Message{}
	routing := p.node.Config.Routing()
	if !p.node.HasOwnStack() || routing.PodVRFID == routing.MainVRFID {
		return values
	}
	for _, ipv6 := range []bool{false, true} {
		if loopback := p.node.Loopback(ipv6); loopback.IsValid() {
			route := &vpp_l3.Route{
				Type: vpp_l3.Route_INTER_VRF, VrfId: routing.PodVRFID, ViaVrfId: routing.MainVRFID,
				DstNetwork: netip.PrefixFrom(loopback, loopback.BitLen()).String(),
			}
			values[models.Key(route)] = route
		}
	}
	return values
}

// updateRanges requests the source ranges of all services after these have changed.
func (p *Proxy) updateRanges(ids []processor.ID, txn controller.UpdateOperations) {
	for _, id := range ids {
		var restricted []processor.Frontend
		if t := p.translations[id]; t != nil {
			restricted = t.restricted
		}
		p.ranges.set(id, restricted)
	}
	before := maps.Clone(p.shared)
	maps.DeleteFunc(before, func(key string, _ proto.Message) bool { return !slices.Contains(rangeKeys, key) })
	after := p.ranges.values()
	replace(before, after, txn)
	for _, key := range rangeKeys {
		if p.shared[key] = after[key]; after[key] == nil {
			delete(p.shared, key)
		}
	}
}
