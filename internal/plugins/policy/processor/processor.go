package processor

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/api/contiv/namespace"
	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/api/contiv/policy"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/policy/cache"
	"github.com/contiv/contiv/internal/plugins/policy/configurator"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// PodID and PolicyID identify a pod and a policy by namespace and name.
type (
	PodID    = podmanager.PodID
	PolicyID struct{ Namespace, Name string }
)

func (id PolicyID) isCluster() bool { return id.Namespace == "" }

// Local is a pod that is wired on this node.
type Local struct {
	// UID is empty if unknown.
	UID string
	// Addresses of all interfaces.
	Addresses []netip.Addr
	// Interface is the logical name of the main interface.
	Interface      string
	MoreInterfaces []string
}

// Published is a pod address that a node publishes and Kubernetes does not know. It applies only to
// pods with an address in Subnet, a pod subnet of the publishing node.
type Published struct {
	Addr   netip.Addr
	Subnet netip.Prefix
}

// Processor computes the policy values of a node. It is not safe for concurrent use.
type Processor struct {
	node      string
	cache     *cache.Cache
	pods      map[PodID]*podState
	local     map[PodID]*Local
	published map[PodID][]Published
	// assigned contains the pods that Kubernetes assigned to the node and that get a network.
	assigned        map[PodID]struct{}
	policies        map[PolicyID]*policyState
	clusterPolicies map[PolicyID]*policyState
	perNamespace    map[string]*isolation
	claims          map[netip.Addr]map[PodID]struct{}
	// named also contains names that no policy uses.
	named     map[configurator.NamedPort]map[PodID]struct{}
	sets      map[*cache.Selection]*set
	nodes     nodes
	own       []netip.Prefix
	endpoints map[configurator.NamedPort]int
	// about indexes the policies by the selection of their subjects.
	about map[*cache.Selection]map[PolicyID]struct{}

	bound size
	// parts is the sum of the policies that are taken.
	parts int
	// waiting contains the changed policies that choose has to decide about.
	waiting      map[PolicyID]struct{}
	waitingParts int
	// refused contains the policies beyond the limits, by namespace.
	refused map[string]map[PolicyID]*policyState

	dirty dirty
	gone  map[string]struct{}
	// returned holds the keys that Changes has returned as values and not yet as gone.
	returned map[string]struct{}
}

type isolation struct{ ingress, egress int }

type dirty struct {
	sets      map[*cache.Selection]struct{}
	nodes     map[*cache.Selection]struct{}
	endpoints map[configurator.NamedPort]struct{}
	lists     map[PolicyID]struct{}
	subjects  map[PodID]struct{}
	own       bool
}

func newDirty() dirty {
	return dirty{map[*cache.Selection]struct{}{}, map[*cache.Selection]struct{}{}, map[configurator.NamedPort]struct{}{}, map[PolicyID]struct{}{}, map[PodID]struct{}{}, false}
}

type podState struct {
	labels map[string]string
	ips    []netip.Addr
	// node and uid identify the pod's sandboxes.
	node, uid string
	ports     []port
	// peer is set if the pod runs and is not on the host network.
	peer        bool
	terminating bool
	claimed     []netip.Addr
}

type port struct {
	name   configurator.NamedPort
	number uint32
}

type policyState struct {
	// lists are closed while the policy is refused.
	lists *configurator.Lists
	value proto.Message
	// translated is false if the lists are not those of the value.
	translated bool
	parts      int
	// taken is set while the lists and selections are in use.
	taken bool
	// before is the version in use until this one is taken or refused.
	before   *policyState
	subjects *cache.Selection
	peers    []*cache.Selection
	nodes    []*cache.Selection
	ports    []configurator.NamedPort
}

// New returns a processor for the node.
func New(node string) *Processor {
	p := &Processor{
		node: node, pods: map[PodID]*podState{}, local: map[PodID]*Local{}, assigned: map[PodID]struct{}{}, policies: map[PolicyID]*policyState{}, clusterPolicies: map[PolicyID]*policyState{},
		perNamespace: map[string]*isolation{}, claims: map[netip.Addr]map[PodID]struct{}{},
		named: map[configurator.NamedPort]map[PodID]struct{}{}, sets: map[*cache.Selection]*set{},
		endpoints: map[configurator.NamedPort]int{}, about: map[*cache.Selection]map[PolicyID]struct{}{},
		bound: size{MaxNodeParts, MaxNodePods}, waiting: map[PolicyID]struct{}{}, refused: map[string]map[PolicyID]*policyState{},
		dirty: newDirty(), gone: map[string]struct{}{}, returned: map[string]struct{}{},
	}
	p.cache = cache.New(p.memberChanged)
	p.nodes = newNodes(func(s *cache.Selection) { p.dirty.nodes[s] = struct{}{} })
	return p
}

func (p *Processor) memberChanged(s *cache.Selection, id PodID, _ bool) {
	p.touch(s, id)
	if len(p.about[s]) > 0 && p.local[id] != nil {
		p.dirty.subjects[id] = struct{}{}
	}
}

// SetPod adds or changes a pod.
func (p *Processor) SetPod(value *pod.Pod) {
	id, kube := podmanager.IDOf(value), podmanager.FromKube(value)
	state := p.pods[id]
	if state == nil {
		state = &podState{}
		p.pods[id] = state
		p.subjectChanged(id)
	}
	ports := portsOf(value)
	if !slices.Equal(state.ports, ports) {
		p.forgetPorts(id, state)
		state.ports = ports
		for _, port := range ports {
			if p.named[port.name] == nil {
				p.named[port.name] = map[PodID]struct{}{}
			}
			p.named[port.name][id] = struct{}{}
			p.portChanged(port.name)
		}
	}
	p.cache.SetPod(id, kube.Labels)
	if len(p.refused) > 0 || len(p.clusterPolicies) > 0 && !p.cache.KnowsNamespace(id.Namespace) { // see mayBeDenied
		p.subjectChanged(id)
	}
	state.labels = kube.Labels
	state.ips = slices.DeleteFunc(kube.IPs, netip.Addr.IsUnspecified) // no set may contain 0.0.0.0 or ::
	if state.node != kube.NodeName || state.uid != kube.UID {
		p.subjectChanged(id) // a wired sandbox may become the pod's, or cease to be
		for _, addr := range state.claimed {
			p.claimsChanged(addr)
		}
	}
	state.node, state.uid, state.peer = kube.NodeName, kube.UID, !kube.HostNetwork && !kube.Finished
	if state.peer && state.node == p.node {
		p.assigned[id] = struct{}{}
	} else {
		delete(p.assigned, id)
	}
	if state.terminating != value.GetTerminating() {
		state.terminating = value.GetTerminating()
		for _, addr := range state.claimed {
			p.claimsChanged(addr)
		}
	}
	p.claim(id)
}

// DeletePod forgets a pod.
func (p *Processor) DeletePod(id PodID) {
	state := p.pods[id]
	if state == nil {
		return
	}
	state.peer = false
	delete(p.assigned, id)
	p.claim(id)
	p.forgetPorts(id, state)
	p.cache.DeletePod(id)
	delete(p.pods, id)
	p.subjectChanged(id)
}

func (p *Processor) subjectChanged(id PodID) {
	if p.local[id] != nil {
		p.dirty.subjects[id] = struct{}{}
	}
}

func (p *Processor) forgetPorts(id PodID, state *podState) {
	for _, port := range state.ports {
		delete(p.named[port.name], id)
		if len(p.named[port.name]) == 0 {
			delete(p.named, port.name)
		}
		p.portChanged(port.name)
	}
	state.ports = nil
}

func (p *Processor) portChanged(name configurator.NamedPort) {
	if p.endpoints[name] > 0 {
		p.dirty.endpoints[name] = struct{}{}
	}
}

func (p *Processor) claim(id PodID) {
	state := p.pods[id]
	if state == nil {
		return
	}
	wanted := p.wantedBy(id, state)
	if slices.Equal(state.claimed, wanted) {
		return
	}
	before := state.claimed
	state.claimed = wanted
	for _, addr := range before {
		delete(p.claims[addr], id)
		p.claimsChanged(addr)
		if len(p.claims[addr]) == 0 {
			delete(p.claims, addr)
		}
	}
	for _, addr := range wanted {
		if p.claims[addr] == nil {
			p.claims[addr] = map[PodID]struct{}{}
		}
		p.claims[addr][id] = struct{}{}
		p.claimsChanged(addr)
	}
	p.peerChanged(id)
}

// isCurrent reports whether the local sandbox belongs to the pod in Kubernetes. Sandboxes of former
// pods of that name, and of pods on another node, are treated as unknown pods.
func (p *Processor) isCurrent(id PodID) bool {
	local, state := p.local[id], p.pods[id]
	return local != nil && state != nil && (&podmanager.Pod{NodeName: state.node, UID: state.uid}).Runs(p.node, local.UID)
}

// wantedBy returns the addresses that a pod claims. For local pods, the wiring overrides
// Kubernetes: the address of an unwired pod may already belong to another pod.
func (p *Processor) wantedBy(id PodID, state *podState) []netip.Addr {
	switch {
	case !state.peer:
		return nil
	case p.isCurrent(id):
		return p.local[id].Addresses
	case state.node == p.node:
		return nil
	}
	wanted := state.ips
	for _, more := range p.published[id] {
		if slices.ContainsFunc(state.ips, more.Subnet.Contains) && !slices.Contains(wanted, more.Addr) {
			wanted = append(slices.Clip(wanted), more.Addr)
		}
	}
	return wanted
}

// SetPublished replaces the pod addresses that nodes publish.
func (p *Processor) SetPublished(next map[PodID][]Published) {
	for _, of := range next {
		slices.SortFunc(of, func(a, b Published) int {
			return cmp.Or(a.Addr.Compare(b.Addr), a.Subnet.Addr().Compare(b.Subnet.Addr()))
		})
	}
	before := p.published
	p.published = next
	for _, of := range []map[PodID][]Published{before, next} {
		for id := range of {
			if !slices.Equal(before[id], next[id]) {
				p.claim(id)
			}
		}
	}
}

// The owner of the address may have changed.
func (p *Processor) claimsChanged(addr netip.Addr) {
	for id := range p.claims[addr] {
		p.peerChanged(id)
	}
}

func (p *Processor) peerChanged(id PodID) {
	for s := range p.cache.SelectionsOf(id) {
		p.touch(s, id)
	}
	if state := p.pods[id]; state != nil {
		for _, port := range state.ports {
			p.portChanged(port.name)
		}
	}
}

// owns reports whether an address belongs to the pod. Among several claims, a local pod wins, then
// one that is not terminating. A tie gives the address to none of them.
func (p *Processor) owns(id PodID, addr netip.Addr) bool {
	claims := p.claims[addr]
	if len(claims) == 1 {
		return true
	}
	rank := func(id PodID) int {
		switch {
		case p.isCurrent(id):
			return 2
		case !p.pods[id].terminating:
			return 1
		}
		return 0
	}
	for other := range claims {
		if other != id && rank(other) >= rank(id) {
			return false
		}
	}
	return true
}

func (p *Processor) addressesOf(id PodID) (owned []netip.Addr) {
	for _, addr := range p.pods[id].claimed {
		if p.owns(id, addr) {
			owned = append(owned, addr)
		}
	}
	return owned
}

// SetNamespace adds a namespace or changes its labels.
func (p *Processor) SetNamespace(value *namespace.Namespace) {
	labels := map[string]string{}
	for _, l := range value.GetLabel() {
		labels[l.GetKey()] = l.GetValue()
	}
	p.cache.SetNamespace(value.GetName(), labels)
	p.namespaceChanged(value.GetName())
}

// DeleteNamespace forgets a namespace.
func (p *Processor) DeleteNamespace(name string) {
	p.cache.DeleteNamespace(name)
	p.namespaceChanged(name)
}

// A changed namespace may change the cluster network policies of its pods.
func (p *Processor) namespaceChanged(name string) {
	if len(p.clusterPolicies) == 0 {
		return
	}
	for id := range p.local {
		if id.Namespace == name {
			p.dirty.subjects[id] = struct{}{}
		}
	}
}

// SetLocal records that a pod was wired on this node, or that its wiring changed.
func (p *Processor) SetLocal(id PodID, local Local) {
	if old := p.local[id]; old != nil && old.UID == local.UID && old.Interface == local.Interface && slices.Equal(old.MoreInterfaces, local.MoreInterfaces) && slices.Equal(old.Addresses, local.Addresses) {
		return
	}
	p.local[id] = &local
	p.dirty.subjects[id] = struct{}{}
	p.localChanged(id)
}

// DeleteLocal records that a pod is no longer wired on this node.
func (p *Processor) DeleteLocal(id PodID) {
	if p.local[id] == nil {
		return
	}
	delete(p.local, id)
	p.dirty.subjects[id] = struct{}{}
	p.localChanged(id)
}

func (p *Processor) localChanged(id PodID) {
	p.claim(id)
	if state := p.pods[id]; state != nil {
		for _, addr := range state.claimed { // ownership depends on being local
			p.claimsChanged(addr)
		}
	}
}

// Locals returns the pods wired on this node. Read-only, for tests.
func (p *Processor) Locals() map[PodID]*Local { return p.local }

// SetPolicy adds or changes a policy.
func (p *Processor) SetPolicy(value *policy.Policy) {
	p.setPolicy(PolicyID{value.GetNamespace(), value.GetName()}, value)
}

// SetClusterPolicy adds or changes a cluster network policy.
func (p *Processor) SetClusterPolicy(value *policy.ClusterPolicy) {
	p.setPolicy(PolicyID{Name: value.GetName()}, value)
}

func (p *Processor) setPolicy(id PolicyID, value proto.Message) {
	old := p.policies[id]
	state := p.newState(value)
	p.dirty.own = p.dirty.own || len(p.policies) == 0
	p.policies[id] = state
	if id.isCluster() {
		p.clusterPolicies[id] = state
	}
	p.count(id, state.lists, 1)
	if old != nil {
		p.count(id, old.lists, -1)
		p.forgetRefused(id)
		if state.before = old; !old.taken {
			state.before = old.before
		}
	}
	p.waiting[id] = struct{}{}
	p.dirty.lists[id] = struct{}{}
}

// DeletePolicy forgets a policy.
func (p *Processor) DeletePolicy(id PolicyID) {
	old := p.policies[id]
	if old == nil {
		return
	}
	delete(p.policies, id)
	delete(p.clusterPolicies, id)
	delete(p.waiting, id)
	p.forgetRefused(id)
	p.count(id, old.lists, -1)
	for _, version := range []*policyState{old, old.before} {
		if version != nil && version.taken {
			p.release(id, version)
		}
	}
	p.dirty.lists[id] = struct{}{}
	if len(p.own) > 0 && len(p.policies) == 0 {
		for _, direction := range []filter.AccessList_Direction{filter.AccessList_INGRESS, filter.AccessList_EGRESS} {
			p.gone[models.Key(&filter.AccessList{Name: ownListName(direction)})] = struct{}{}
		}
	}
}

// acquire calls fits after each selection, and stops if it returns false.
func (p *Processor) acquire(id PolicyID, state *policyState, fits func() bool) bool {
	state.taken = true
	p.parts += state.parts
	state.subjects = p.cache.Acquire(state.lists.Subjects.Scope, state.lists.Subjects.Selector)
	if p.about[state.subjects] == nil {
		p.about[state.subjects] = map[PolicyID]struct{}{}
	}
	p.about[state.subjects][id] = struct{}{}
	p.membersChanged(state.subjects)
	if !fits() {
		return false
	}
	for _, pods := range state.lists.Peers {
		s := p.cache.Acquire(pods.Scope, pods.Selector)
		if !fits() {
			p.cache.Release(s)
			return false
		}
		state.peers = append(state.peers, s)
		p.useSet(s)
	}
	for _, selector := range state.lists.Nodes {
		state.nodes = append(state.nodes, p.nodes.acquire(selector))
		if !fits() {
			return false
		}
	}
	for _, name := range state.lists.Ports {
		state.ports = append(state.ports, name)
		if p.endpoints[name]++; p.endpoints[name] == 1 {
			p.dirty.endpoints[name] = struct{}{}
		}
	}
	return fits()
}

func (p *Processor) membersChanged(s *cache.Selection) {
	members := s.Members()
	if len(members) < len(p.local) {
		for id := range members {
			p.subjectChanged(id)
		}
		return
	}
	for id := range p.local {
		if _, ok := members[id]; ok {
			p.dirty.subjects[id] = struct{}{}
		}
	}
}

func (p *Processor) release(id PolicyID, state *policyState) {
	state.taken = false
	p.parts -= state.parts
	p.membersChanged(state.subjects)
	if now := p.policies[id]; now == nil || now == state || now.subjects != state.subjects {
		delete(p.about[state.subjects], id)
		if len(p.about[state.subjects]) == 0 {
			delete(p.about, state.subjects)
		}
	}
	p.cache.Release(state.subjects)
	for _, s := range state.peers {
		p.disuseSet(s)
		p.cache.Release(s)
	}
	for _, s := range state.nodes {
		if p.nodes.release(s) {
			delete(p.dirty.nodes, s)
			p.gone[models.Key(&filter.AddressSet{Name: configurator.NodesSet(s.Selector())})] = struct{}{}
		}
	}
	for _, name := range state.ports {
		if p.endpoints[name]--; p.endpoints[name] == 0 {
			delete(p.endpoints, name)
			delete(p.dirty.endpoints, name)
			p.gone[models.Key(&filter.EndpointSet{Name: name.Set()})] = struct{}{}
		}
	}
	state.subjects, state.peers, state.nodes, state.ports = nil, nil, nil, nil
}

// count updates perNamespace. A namespace's first and last policy change the isolation of its local
// pods that Kubernetes does not know yet. Cluster network policies may select any of them.
func (p *Processor) count(id PolicyID, lists *configurator.Lists, by int) {
	if id.isCluster() {
		for local := range p.local {
			if !p.isCurrent(local) || !p.cache.KnowsNamespace(local.Namespace) {
				p.dirty.subjects[local] = struct{}{}
			}
		}
		return
	}
	n := p.perNamespace[id.Namespace]
	if n == nil {
		n = &isolation{}
		p.perNamespace[id.Namespace] = n
	}
	before := *n
	if lists.Ingress != nil {
		n.ingress += by
	}
	if lists.Egress != nil {
		n.egress += by
	}
	if *n == (isolation{}) {
		delete(p.perNamespace, id.Namespace)
	}
	if (before.ingress > 0) == (n.ingress > 0) && (before.egress > 0) == (n.egress > 0) {
		return
	}
	for local := range p.local {
		if local.Namespace == id.Namespace && !p.isCurrent(local) {
			p.dirty.subjects[local] = struct{}{}
		}
	}
}

// portsOf includes restartable init containers.
func portsOf(value *pod.Pod) (ports []port) {
	containers := slices.Clone(value.GetContainer())
	for _, c := range value.GetInitContainer() {
		if c.GetRestartable() {
			containers = append(containers, c)
		}
	}
	for _, c := range containers {
		for _, p := range c.GetPort() {
			protocol, known := podProtocols[p.GetProtocol()]
			if p.GetName() != "" && known && p.GetContainerPort() > 0 && p.GetContainerPort() <= 65535 {
				ports = append(ports, port{configurator.NamedPort{Protocol: protocol, Name: p.GetName()}, uint32(p.GetContainerPort())})
			}
		}
	}
	return ports
}

var podProtocols = map[pod.Pod_Container_Port_Protocol]filter.Protocol{
	pod.Pod_Container_Port_TCP: filter.Protocol_TCP, pod.Pod_Container_Port_UDP: filter.Protocol_UDP, pod.Pod_Container_Port_SCTP: filter.Protocol_SCTP,
}

// Changes returns the values changed since the last call, and the keys of values no longer wanted.
// Apply the values first, so that nothing refers to the removed ones.
func (p *Processor) Changes() (values []proto.Message, gone []string) {
	p.choose()
	for s := range p.dirty.sets {
		values = append(values, p.addressSet(s))
	}
	for s := range p.dirty.nodes {
		values = append(values, p.nodes.addressSet(s))
	}
	for name := range p.dirty.endpoints {
		values = append(values, p.endpointSet(name))
	}
	if p.dirty.own && len(p.own) > 0 && len(p.policies) > 0 {
		values = append(values, p.ownList(filter.AccessList_INGRESS), p.ownList(filter.AccessList_EGRESS))
	}
	for id := range p.dirty.lists {
		for _, direction := range []filter.AccessList_Direction{filter.AccessList_INGRESS, filter.AccessList_EGRESS} {
			if list := p.list(id, direction); list != nil {
				values = append(values, list)
			} else {
				p.gone[models.Key(&filter.AccessList{Name: configurator.ListName(id.Namespace, id.Name, direction)})] = struct{}{}
			}
		}
	}
	for id := range p.dirty.subjects {
		if subject := p.subject(id); subject != nil {
			values = append(values, subject)
		} else {
			p.gone[models.Key(&filter.Subject{Name: id.String()})] = struct{}{}
		}
	}
	for _, value := range values {
		key := models.Key(value)
		delete(p.gone, key)
		p.returned[key] = struct{}{}
	}
	for _, key := range slices.Sorted(maps.Keys(p.gone)) {
		if _, wanted := p.returned[key]; wanted {
			gone = append(gone, key)
			delete(p.returned, key)
		}
	}
	p.dirty, p.gone = newDirty(), map[string]struct{}{}
	return values, gone
}

// All returns all values, as the first Changes of a new processor does.
func (p *Processor) All() (values []proto.Message) {
	p.choose()
	for s := range p.sets {
		p.dirty.sets[s] = struct{}{}
	}
	for s := range p.nodes.users {
		p.dirty.nodes[s] = struct{}{}
	}
	for name := range p.endpoints {
		p.dirty.endpoints[name] = struct{}{}
	}
	p.dirty.own = true
	for id := range p.policies {
		p.dirty.lists[id] = struct{}{}
	}
	for id := range p.local {
		p.dirty.subjects[id] = struct{}{}
	}
	values, _ = p.Changes()
	return values
}
