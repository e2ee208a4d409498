package processor

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/internal/plugins/policy/configurator"
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
	if state == nil || !state.taken {
		return nil
	}
	return state.lists.List(direction)
}

// subject returns nil if no policy applies to the pod.
func (p *Processor) subject(id PodID) *filter.Subject {
	local := p.local[id]
	if local == nil || len(local.Addresses) == 0 {
		return nil
	}
	out := &filter.Subject{Name: id.String(), Addresses: texts(local.Addresses), Interface: local.Interface, MoreInterfaces: local.MoreInterfaces}
	out.Ingress = p.stages(id, filter.AccessList_INGRESS)
	out.Egress = p.stages(id, filter.AccessList_EGRESS)
	if out.Ingress == nil && out.Egress == nil {
		return nil
	}
	return out
}

// stages returns the stage of the node's own networks, if any, then the tiers.
func (p *Processor) stages(id PodID, direction filter.AccessList_Direction) []*filter.Subject_Stage {
	tiers := p.tiers(id, direction)
	if len(tiers) == 0 || len(p.own) == 0 {
		return tiers
	}
	return append([]*filter.Subject_Stage{{Lists: []string{ownListName(direction)}}}, tiers...)
}

// Only the stage of network policies denies everything that it does not allow.
func (p *Processor) tiers(id PodID, direction filter.AccessList_Direction) (stages []*filter.Subject_Stage) {
	isolated, denied := p.refusedFor(id, direction)
	if denied || p.mayBeDenied(id, direction) {
		return []*filter.Subject_Stage{{Deny: true}}
	}
	var tiers [configurator.Baseline + 1][]*configurator.Lists
	if p.isCurrent(id) {
		for policyID := range p.policiesAbout(id) {
			if lists := p.policies[policyID].lists; lists.List(direction) != nil {
				tiers[lists.Tier] = append(tiers[lists.Tier], lists)
			}
		}
	}
	if lists := tiers[configurator.Admin]; len(lists) > 0 {
		stages = append(stages, stage(lists, direction))
	}
	if lists := tiers[configurator.Namespaced]; len(lists) > 0 || isolated || p.mayBeIsolated(id, direction) {
		namespaced := stage(lists, direction)
		namespaced.Deny = true
		return append(stages, namespaced)
	}
	if lists := tiers[configurator.Baseline]; len(lists) > 0 {
		stages = append(stages, stage(lists, direction))
	}
	return stages
}

// mayBeIsolated reports whether a policy of the namespace may select a pod unknown to Kubernetes.
// Until its labels are known, the strictest policies apply.
func (p *Processor) mayBeIsolated(id PodID, direction filter.AccessList_Direction) bool {
	n := p.perNamespace[id.Namespace]
	switch {
	case n == nil || p.isCurrent(id):
		return false
	case direction == filter.AccessList_EGRESS:
		return n.egress > 0
	}
	return n.ingress > 0
}

// mayBeDenied reports whether a cluster network policy with a Deny rule may select a pod that is
// unknown or in an unknown namespace.
func (p *Processor) mayBeDenied(id PodID, direction filter.AccessList_Direction) bool {
	pod := p.pods[id]
	if !p.isCurrent(id) {
		pod = nil
	}
	if len(p.clusterPolicies) == 0 || pod != nil && p.cache.KnowsNamespace(id.Namespace) {
		return false
	}
	for _, state := range p.clusterPolicies {
		subjects := state.lists.Subjects
		switch {
		case !configurator.Denies(state.lists.List(direction)):
		case pod == nil && p.cache.MayInclude(subjects.Scope, id.Namespace):
			return true
		case pod != nil && len(subjects.Scope.Namespaces) > 0 && subjects.Selector.Matches(pod.labels):
			return true
		}
	}
	return false
}

func stage(tier []*configurator.Lists, direction filter.AccessList_Direction) *filter.Subject_Stage {
	slices.SortFunc(tier, func(a, b *configurator.Lists) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), strings.Compare(a.Name, b.Name))
	})
	out := &filter.Subject_Stage{}
	for _, lists := range tier {
		out.Lists = append(out.Lists, lists.List(direction).GetName())
	}
	return out
}
