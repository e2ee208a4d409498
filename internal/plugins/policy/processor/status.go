package processor

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/internal/plugins/policy/configurator"
	"github.com/contiv/contiv/models"
)

// String returns namespace/name, or the name of a cluster network policy.
func (id PolicyID) String() string {
	if id.isCluster() {
		return id.Name
	}
	return id.Namespace + "/" + id.Name
}

// Policy is a policy as seen from this node.
type Policy struct {
	ID       PolicyID
	Tier     configurator.Tier
	Priority int32
	// Wired contains the selected local pods, Unwired the selected pods assigned to this node but
	// not wired yet. Both are sorted.
	Wired, Unwired []PodID
	// Invalid describes the invalid parts; see configurator.Lists.
	Invalid []string
}

// Policies returns all policies, sorted. The cost depends on their number, and on the number that
// select local pods.
func (p *Processor) Policies() []*Policy {
	byID := make(map[PolicyID]*Policy, len(p.policies))
	list := make([]*Policy, 0, len(p.policies))
	for id, state := range p.policies {
		byID[id] = &Policy{ID: id, Tier: state.lists.Tier, Priority: state.lists.Priority, Invalid: state.lists.Invalid}
		list = append(list, byID[id])
	}
	for pod := range p.local {
		if !p.isCurrent(pod) {
			continue
		}
		for id := range p.policiesAbout(pod) {
			byID[id].Wired = append(byID[id].Wired, pod)
		}
		for id := range p.refusedAbout(pod) {
			byID[id].Wired = append(byID[id].Wired, pod)
		}
	}
	for pod := range p.assigned {
		if p.isCurrent(pod) {
			continue
		}
		for id := range p.policiesAbout(pod) {
			byID[id].Unwired = append(byID[id].Unwired, pod)
		}
		for id := range p.refusedAbout(pod) {
			byID[id].Unwired = append(byID[id].Unwired, pod)
		}
	}
	for _, policy := range list {
		slices.SortFunc(policy.Wired, comparePods)
		slices.SortFunc(policy.Unwired, comparePods)
	}
	slices.SortFunc(list, func(a, b *Policy) int {
		return cmp.Or(strings.Compare(a.ID.Namespace, b.ID.Namespace), strings.Compare(a.ID.Name, b.ID.Name))
	})
	return list
}

// Invalid returns the policies with invalid parts, sorted, without their pods.
func (p *Processor) Invalid() (list []*Policy) {
	for id, state := range p.policies {
		if len(state.lists.Invalid) > 0 {
			list = append(list, &Policy{ID: id, Tier: state.lists.Tier, Priority: state.lists.Priority, Invalid: state.lists.Invalid})
		}
	}
	slices.SortFunc(list, func(a, b *Policy) int { return strings.Compare(a.ID.String(), b.ID.String()) })
	return list
}

func comparePods(a, b PodID) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

func (p *Processor) policiesAbout(pod PodID) iter.Seq[PolicyID] {
	return func(yield func(PolicyID) bool) {
		for s := range p.cache.SelectionsOf(pod) {
			for id := range p.about[s] {
				if !yield(id) {
					return
				}
			}
		}
	}
}

// Keys returns the keys of a policy's values on this node, including its subjects.
func (p *Processor) Keys(policy *Policy) (keys []string) {
	state := p.policies[policy.ID]
	if state == nil {
		return nil
	}
	for _, list := range []*filter.AccessList{state.lists.Ingress, state.lists.Egress} {
		if list != nil && state.taken {
			keys = append(keys, models.Key(list))
		}
	}
	for _, s := range state.peers {
		keys = append(keys, models.Key(&filter.AddressSet{Name: p.sets[s].name}))
	}
	for _, s := range state.nodes {
		keys = append(keys, models.Key(&filter.AddressSet{Name: configurator.NodesSet(s.Selector())}))
	}
	for _, name := range state.ports {
		keys = append(keys, models.Key(&filter.EndpointSet{Name: name.Set()}))
	}
	for _, pod := range policy.Wired {
		keys = append(keys, models.Key(&filter.Subject{Name: pod.String()}))
	}
	return keys
}

// PodOf returns the pod, on any node, that owns the address.
func (p *Processor) PodOf(addr netip.Addr) (PodID, bool) {
	for id := range p.claims[addr] {
		if p.owns(id, addr) {
			return id, true
		}
	}
	return PodID{}, false
}

// Denying returns the policies that deny connections of a local pod, sorted. byRule selects
// policies with a Deny rule, otherwise policies that isolate the pod.
func (p *Processor) Denying(pod PodID, direction filter.AccessList_Direction, byRule bool) (list []PolicyID) {
	for id := range p.policiesAbout(pod) {
		lists := p.policies[id].lists
		rules := lists.List(direction)
		if rules != nil && (byRule && configurator.Denies(rules) || !byRule && lists.Tier == configurator.Namespaced) {
			list = append(list, id)
		}
	}
	for id, lists := range p.refusedAbout(pod) {
		if !byRule && lists.List(direction) != nil {
			list = append(list, id)
		}
	}
	slices.SortFunc(list, func(a, b PolicyID) int { return strings.Compare(a.String(), b.String()) })
	return list
}
