package processor

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/plugins/policy/configurator"
)

func texts(addrs []netip.Addr) []string {
	list := make([]string, len(addrs))
	for i, addr := range addrs {
		list[i] = addr.String()
	}
	return list
}

func (p *Processor) endpointSet(name configurator.NamedPort) *filter.EndpointSet {
	set := &filter.EndpointSet{Name: name.Set(), Description: "ports named " + name.Name}
	for id := range p.named[name] {
		for _, addr := range p.addressesOf(id) {
			for _, port := range p.pods[id].ports {
				if port.name == name {
					set.Endpoints = append(set.Endpoints, &filter.EndpointSet_Endpoint{Address: addr.String(), Protocol: name.Protocol, Port: port.number})
				}
			}
		}
	}
	slices.SortFunc(set.Endpoints, compareEndpoints)
	set.Endpoints = slices.CompactFunc(set.Endpoints, func(a, b *filter.EndpointSet_Endpoint) bool { return compareEndpoints(a, b) == 0 })
	return set
}

func compareEndpoints(a, b *filter.EndpointSet_Endpoint) int {
	return cmp.Or(strings.Compare(a.GetAddress(), b.GetAddress()), cmp.Compare(a.GetPort(), b.GetPort()))
}

func (p *Processor) list(id PolicyID, direction filter.AccessList_Direction) *filter.AccessList {
	state := p.policies[id]
	switch {
	case state == nil:
		return nil
	case direction == filter.AccessList_EGRESS:
		return state.lists.Egress
	}
	return state.lists.Ingress
}

// subject returns what a pod of this node is subject to; nil: nothing. A pod that
// Kubernetes does not know yet may be what any policy of its namespace is about:
// until its labels are known, it is isolated as the strictest of them say.
func (p *Processor) subject(id PodID) *filter.Subject {
	local := p.local[id]
	if local == nil || len(local.Addresses) == 0 {
		return nil
	}
	var ingress, egress []string
	isolated := isolation{}
	if p.pods[id] == nil {
		if n := p.perNamespace[id.Namespace]; n != nil {
			isolated = *n
		}
	}
	for s := range p.cache.SelectionsOf(id) {
		for policyID := range p.about[s] {
			lists := p.policies[policyID].lists
			if lists.Ingress != nil {
				ingress = append(ingress, lists.Ingress.GetName())
			}
			if lists.Egress != nil {
				egress = append(egress, lists.Egress.GetName())
			}
		}
	}
	out := &filter.Subject{Name: id.String(), Addresses: texts(local.Addresses), Interface: local.Interface}
	if len(ingress) > 0 || isolated.ingress > 0 {
		out.Ingress = stage(ingress)
	}
	if len(egress) > 0 || isolated.egress > 0 {
		out.Egress = stage(egress)
	}
	if out.Ingress == nil && out.Egress == nil {
		return nil
	}
	return out
}

// stage is that of network policies: what none of them allows is denied.
func stage(lists []string) []*filter.Subject_Stage {
	slices.Sort(lists)
	return []*filter.Subject_Stage{{Lists: lists, Deny: true}}
}
