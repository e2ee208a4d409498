package processor

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/api/contiv/policy"
	"github.com/contiv/contiv/internal/plugins/policy/configurator"
	"google.golang.org/protobuf/proto"
)

// Limits of all policies of a node together. Parts are the policies and their peers, networks,
// exceptions and ports. Pods are the members of all selections of pods and nodes, the pods with
// named ports, and the local pods of each policy. Cluster network policies are taken first, then
// network policies, the smallest first. The first policy that does not fit and all further ones are
// refused and fail closed.
const (
	MaxNodeParts = 131_072
	MaxNodePods  = 524_288
)

type size struct{ parts, pods int }

func (p *Processor) newState(value proto.Message) *policyState {
	s := &policyState{value: value}
	s.translate()
	s.parts = 1 + s.lists.Size()
	if p.waitingParts += s.parts; p.waitingParts > p.bound.parts {
		p.close(s) // many waiting policies must not be in memory with all their parts
	}
	return s
}

func (s *policyState) translate() {
	if s.translated {
		return
	}
	s.translated = true
	switch v := s.value.(type) {
	case *policy.Policy:
		s.lists = configurator.NetworkPolicy(v)
	case *policy.ClusterPolicy:
		s.lists = configurator.ClusterPolicy(v)
	}
}

func (p *Processor) close(s *policyState) {
	if s.translated {
		s.translated = false
		s.lists = s.lists.Refused(s.parts-1, p.bound.parts, p.bound.pods)
	}
}

// selected returns the pods with named ports in use, and the local pods of each policy.
func (p *Processor) selected() (n int) {
	for name := range p.endpoints {
		n += len(p.named[name])
	}
	for id := range p.local {
		for s := range p.cache.SelectionsOf(id) {
			n += len(p.about[s])
		}
	}
	return n
}

// choose takes the changed policies that fit, and refuses or takes others if the room has changed.
func (p *Processor) choose() {
	waiting := make([]PolicyID, 0, len(p.waiting))
	for id := range p.waiting {
		waiting = append(waiting, id)
	}
	clear(p.waiting)
	p.waitingParts = 0
	pods := p.selected()
	if len(p.refused) == 0 && p.takeAll(waiting, &pods) && p.fits(pods) {
		return
	}
	p.chooseAll(&pods)
}

func (p *Processor) fits(pods int) bool {
	return p.parts <= p.bound.parts && pods+p.cache.Memberships()+p.nodes.cache.Memberships() <= p.bound.pods
}

func (p *Processor) takeAll(ids []PolicyID, pods *int) bool {
	p.sort(ids)
	for _, id := range ids {
		if !p.take(id, pods, func() bool { return false }) {
			return false
		}
	}
	return true
}

func (p *Processor) sort(ids []PolicyID) {
	slices.SortFunc(ids, func(a, b PolicyID) int {
		if a.isCluster() != b.isCluster() {
			if a.isCluster() {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(p.policies[a].parts, p.policies[b].parts), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}

// chooseAll takes the longest sequence of policies that fits.
func (p *Processor) chooseAll(pods *int) {
	order := make([]PolicyID, 0, len(p.policies))
	for id := range p.policies {
		order = append(order, id)
	}
	p.sort(order)
	end := len(order)
	dropAfter := func(i int) func() bool {
		return func() bool {
			for end > i+1 {
				end--
				if p.refuse(order[end], pods) {
					return true
				}
			}
			return false
		}
	}
	for drop := dropAfter(-1); !p.fits(*pods) && drop(); {
	}
	for i, id := range order {
		if p.policies[id].taken || p.take(id, pods, dropAfter(i)) {
			continue
		}
		for _, further := range order[i:] {
			p.refuse(further, pods)
		}
		return
	}
}

// take makes room with drop, which returns false if it cannot. If there is not enough room, the
// policy is not taken.
func (p *Processor) take(id PolicyID, pods *int, drop func() bool) bool {
	state := p.policies[id]
	state.translate()
	counted := 0
	ok := p.acquire(id, state, func() bool {
		now := p.ownPods(state)
		*pods += now - counted
		counted = now
		for !p.fits(*pods) {
			if !p.releaseBefore(id, state, pods) && !drop() {
				return false
			}
		}
		return true
	})
	if !ok {
		p.release(id, state)
		*pods = p.selected()
		p.close(state)
		return false
	}
	p.releaseBefore(id, state, pods)
	p.forgetRefused(id)
	p.dirty.lists[id] = struct{}{}
	return true
}

// ownPods returns the local pods of a policy, and the pods of its named ports that no other uses.
func (p *Processor) ownPods(state *policyState) (n int) {
	for id := range p.local {
		if _, ok := state.subjects.Members()[id]; ok {
			n++
		}
	}
	for _, name := range state.ports {
		if p.endpoints[name] == 1 {
			n += len(p.named[name])
		}
	}
	return n
}

func (p *Processor) releaseBefore(id PolicyID, state *policyState, pods *int) bool {
	before := state.before
	if state.before = nil; before == nil || !before.taken {
		return false
	}
	p.release(id, before)
	*pods = p.selected()
	return true
}

// refuse reports whether it made room.
func (p *Processor) refuse(id PolicyID, pods *int) (room bool) {
	state := p.policies[id]
	room = p.releaseBefore(id, state, pods)
	if state.taken {
		p.release(id, state)
		*pods = p.selected()
		room = true
	}
	p.close(state)
	if p.refused[id.Namespace][id] != nil {
		return room
	}
	if p.refused[id.Namespace] == nil {
		p.refused[id.Namespace] = map[PolicyID]*policyState{}
	}
	p.refused[id.Namespace][id] = state
	p.dirty.lists[id] = struct{}{}
	p.refusalChanged(id)
	return room
}

func (p *Processor) forgetRefused(id PolicyID) {
	if p.refused[id.Namespace][id] == nil {
		return
	}
	delete(p.refused[id.Namespace], id)
	if len(p.refused[id.Namespace]) == 0 {
		delete(p.refused, id.Namespace)
	}
	p.refusalChanged(id)
}

func (p *Processor) refusalChanged(id PolicyID) {
	for pod := range p.local {
		if id.isCluster() || pod.Namespace == id.Namespace {
			p.dirty.subjects[pod] = struct{}{}
		}
	}
}

// refusedAbout returns the refused policies that select a pod known to Kubernetes. They have no
// selections.
func (p *Processor) refusedAbout(id PodID) iter.Seq2[PolicyID, *configurator.Lists] {
	return func(yield func(PolicyID, *configurator.Lists) bool) {
		pod := p.pods[id]
		if pod == nil {
			return
		}
		for _, namespace := range []string{"", id.Namespace} {
			for policyID, state := range p.refused[namespace] {
				of := state.lists.Subjects
				if p.cache.MayInclude(of.Scope, id.Namespace) && of.Selector.Matches(pod.labels) && !yield(policyID, state.lists) {
					return
				}
			}
		}
	}
}

// refusedFor reports whether refused policies isolate a pod, and whether they deny everything.
func (p *Processor) refusedFor(id PodID, direction filter.AccessList_Direction) (isolated, denied bool) {
	if len(p.refused) == 0 || !p.isCurrent(id) {
		return false, false // see mayBeIsolated and mayBeDenied
	}
	for policyID, lists := range p.refusedAbout(id) {
		switch {
		case lists.List(direction) == nil:
		case policyID.isCluster():
			return true, true
		default:
			isolated = true
		}
	}
	return isolated, false
}
