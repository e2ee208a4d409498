package nodesync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/api/contiv/vppnode"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store"
	"google.golang.org/protobuf/proto"
)

// NodeSync is the plugin.
type NodeSync struct {
	nodeName string
	db       store.Broker
	loop     controller.EventLoop
	log      *slog.Logger

	self Self

	// stored is this node's VppNode in the store, or nil. Only for the event loop.
	stored *vppnode.VppNode
	// released is set if this node has lost its ID with its Kubernetes object. Another node may
	// then get the ID. Only for the event loop.
	released bool
	// identified is set once this agent has published addresses, which confirms its name. Only for
	// the event loop.
	identified bool

	// records holds the database's contents. Only for the event loop.
	records records
	// found has been logged. Only for the event loop.
	found findings
	// problems are the sentences of Problems.
	problems atomic.Pointer[[]string]
	// failures counts consecutive failures to publish this node's VppNode. Only for the event loop.
	failures int
	// unpublished sends failures to Run. Its capacity is one.
	unpublished chan int

	mu    sync.RWMutex
	nodes Nodes
	// withID caches the nodes with an ID. nil: outdated.
	withID Nodes
}

// Self describes this node. The zero value is valid.
type Self struct {
	// OwnStack is whether the vswitch has its own network stack rather than the host's. nil: not
	// published.
	OwnStack *bool
	// IPAMOptions are the published options that must be equal on all nodes
	// (contivconf.Subnets.ClusterOptions).
	IPAMOptions []string
	// Claim returns an error while another agent has this node's name; then nothing is published.
	// May be nil.
	Claim func() error
	// HostAddresses returns the machine's addresses in addition to the published ones: the host's
	// if the vswitch has its own network stack. May be nil.
	HostAddresses func() []netip.Prefix
	// Host returns what is published of the machine. If it is nil, nothing is.
	Host func() (Host, error)
	// OfPlan returns the network of the address plan that contains an address, which then cannot be an
	// address of a node, or "". May be nil.
	OfPlan func(netip.Addr) string
}

// New returns the plugin of the node. It keeps the IDs in db.
func New(nodeName string, db store.Broker, self Self, loop controller.EventLoop, log *slog.Logger) *NodeSync {
	if self.Claim == nil {
		self.Claim = func() error { return nil }
	}
	if self.HostAddresses == nil {
		self.HostAddresses = func() []netip.Prefix { return nil }
	}
	if self.OfPlan == nil {
		self.OfPlan = func(netip.Addr) string { return "" }
	}
	return &NodeSync{nodeName: nodeName, db: db, self: self, loop: loop, log: log, records: newRecords(self.OfPlan), unpublished: make(chan int, 1)}
}

// GetNodeID returns the ID of this node, or 0 before the first resync.
func (n *NodeSync) GetNodeID() uint32 {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if own := n.nodes[n.nodeName]; own != nil {
		return own.ID
	}
	return 0
}

// GetAllNodes returns all nodes with an ID, including this one. The map is shared and read-only.
func (n *NodeSync) GetAllNodes() Nodes {
	n.mu.RLock()
	nodes := n.withID
	n.mu.RUnlock()
	if nodes != nil {
		return nodes
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.withID = make(Nodes, len(n.nodes))
	for name, node := range n.nodes {
		if node.ID != 0 {
			n.withID[name] = node
		}
	}
	return n.withID
}

// replace replaces the node of the same name, or removes it if no source has it. The caller holds
// n.mu.
func (n *NodeSync) replace(node *Node) {
	if n.nodes == nil {
		n.nodes = make(Nodes)
	}
	n.withID = nil
	if node.ID == 0 && !node.inKube {
		delete(n.nodes, node.Name)
		return
	}
	n.nodes[node.Name] = node
}

// PublishNodeIPs publishes the addresses of this node's vswitch of one IP version. The
// other version's stay. If the store fails, Run retries. Only handlers of the event loop may call it.
//
// The error wraps ErrNameTaken if this node's name belongs to another one.
func (n *NodeSync) PublishNodeIPs(ctx context.Context, addresses []netip.Prefix, ipv6 bool) error {
	n.mu.Lock()
	own := n.nodes[n.nodeName]
	if own == nil || own.ID == 0 {
		n.mu.Unlock()
		return fmt.Errorf("publish the addresses %v: %w", addresses, ErrNoNodeID)
	}
	if err := n.identifyBy(own, addresses); err != nil {
		n.mu.Unlock()
		return err
	}
	var merged []netip.Prefix
	for _, p := range append(slices.Clone(addresses), own.VPPIPs...) {
		keep := len(merged) < len(addresses) || p.Addr().Is6() != ipv6
		if keep && !slices.Contains(merged, p) {
			merged = append(merged, p)
		}
	}
	slices.SortStableFunc(merged, func(a, b netip.Prefix) int { return a.Addr().BitLen() - b.Addr().BitLen() })
	if !slices.Equal(own.VPPIPs, merged) || !sameStack(own.OwnStack, n.self.OwnStack) || !slices.Equal(own.IPAMOptions, n.self.IPAMOptions) {
		next := *own
		own, next.VPPIPs, next.OwnStack, next.IPAMOptions = &next, merged, n.self.OwnStack, n.self.IPAMOptions
		n.replace(own)
	}
	n.mu.Unlock()
	return n.store(ctx, own.vppNode())
}

func (n *Node) vppNode() *vppnode.VppNode {
	v := &vppnode.VppNode{Id: n.ID, Name: n.Name, OwnNetworkStack: n.OwnStack, IpamOptions: n.IPAMOptions}
	for _, p := range n.VPPIPs {
		v.IpAddresses = append(v.IpAddresses, p.String())
	}
	for _, p := range n.PodAddresses {
		entry := &vppnode.PodAddresses{PodNamespace: p.Namespace, PodName: p.Name, Interface: p.Interface}
		for _, addr := range p.Addresses {
			entry.Addresses = append(entry.Addresses, addr.String())
		}
		v.PodAddresses = append(v.PodAddresses, entry)
	}
	n.Host.publish(v)
	return v
}

// PublishPodAddresses publishes, to this node's handlers, too, the service endpoints of this node's
// pods at custom interfaces. The order is irrelevant. Only handlers of the event loop may call it.
// While Run retries, it leaves the write to Run: a CNI DEL must not wait for an unresponsive
// database.
func (n *NodeSync) PublishPodAddresses(ctx context.Context, list []PodAddresses) error {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b PodAddresses) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	n.mu.Lock()
	own := n.nodes[n.nodeName]
	if own == nil || own.ID == 0 {
		n.mu.Unlock()
		return fmt.Errorf("publish the addresses of pods: %w", ErrNoNodeID)
	}
	if samePodAddresses(own.PodAddresses, list) {
		n.mu.Unlock()
		return nil
	}
	next := *own
	next.PodAddresses = list
	n.replace(&next)
	n.mu.Unlock()
	if err := n.loop.PushEvent(ctx, &NodeUpdate{NodeName: n.nodeName, PrevState: own, NewState: &next}); err != nil {
		return fmt.Errorf("announce the addresses of pods: %w", err)
	}
	if !n.identified || n.failures > 0 { // PublishNodeIPs comes first
		return nil
	}
	return n.store(ctx, next.vppNode())
}

// lost reports whether this node needs another ID: Kubernetes does not know it any more, or the
// ID's new owner is in Kubernetes and has no other ID. Otherwise, its record was overwritten.
func (n *NodeSync) lost(err error) bool {
	taken, ok := errors.AsType[*takenError](err)
	if !ok || n.records.kubeNodes[n.nodeName] == nil {
		return true
	}
	return n.records.kubeNodes[taken.by] != nil && !n.records.hasOtherID(taken.by, taken.id)
}

// store writes this node's VppNode unless it is unchanged or released. It only returns an error if
// another node has the ID, which is fatal if the ID is lost.
func (n *NodeSync) store(ctx context.Context, next *vppnode.VppNode) error {
	if n.released {
		return nil
	}
	if proto.Equal(n.stored, next) {
		n.failures = 0
		return nil
	}
	err := n.self.Claim()
	if err == nil {
		err = swap(ctx, n.db, next)
	}
	switch {
	case err == nil:
		n.stored, n.failures = next, 0
	case errors.Is(err, ErrNoNodeID) && n.lost(err):
		return controller.NewFatalError(err)
	case errors.Is(err, ErrNoNodeID):
		return err
	default:
		controller.Logger(ctx, n.log).Warn("Publishing the addresses of this node failed, retrying",
			"addresses", next.IpAddresses, "error", err)
		n.tryAgain()
	}
	return nil
}

func (*NodeSync) String() string { return "nodesync" }

// HandlesEvent accepts resyncs and changes of nodes.
func (n *NodeSync) HandlesEvent(event controller.Event) bool {
	if change, ok := event.(*controller.KubeStateChange); ok {
		return change.Resource == "node" || change.Resource == "vppnode"
	}
	switch event.(type) {
	case *PublishAgain, *HostChange:
		return true
	}
	return event.Method() != controller.Update
}

// Resync reads all nodes and ensures that this one has an ID.
func (n *NodeSync) Resync(ctx context.Context, _ controller.Event, state controller.KubeState, _ int, _ controller.ResyncOperations) error {
	n.records = newRecords(n.self.OfPlan)
	for key, value := range state["vppnode"] {
		if v, ok := value.(*vppnode.VppNode); ok {
			n.setRecord(ctx, key, v, v)
		}
	}
	for _, value := range state["node"] {
		if k, ok := value.(*node.Node); ok && k.GetName() != "" {
			n.records.kubeNodes[k.GetName()] = k
		}
	}
	own, stored := &Node{Name: n.nodeName}, n.records.of(n.nodeName)
	n.released = n.released && stored == nil && n.records.kubeNodes[n.nodeName] == nil
	if stored != nil {
		own.setVPPNode(stored, hostOf(stored))
	}
	if err := n.identify(ctx, own, stored); err != nil {
		return err
	}
	nodes, found := n.records.nodes(own)
	n.mu.Lock()
	n.nodes, n.withID = nodes, nil
	n.mu.Unlock()
	n.tell(ctx, found)
	return nil
}

// setRecord returns the ID in the key or, without a key, in known.
func (n *NodeSync) setRecord(ctx context.Context, key string, v, known *vppnode.VppNode) uint32 {
	id := idOf(key, known)
	if mistake := n.records.set(key, id, v); mistake != "" {
		controller.Logger(ctx, n.log).Warn("Record of a node ignored: "+mistake, "key ID", id, "id", v.GetId(), "name", v.GetName())
	}
	return id
}

func (n *NodeSync) tell(ctx context.Context, found findings) {
	for _, d := range found.disputed {
		if !slices.Contains(n.found.disputed, d) {
			controller.Logger(ctx, n.log).Error("Several nodes have the same address, using one of them; "+
				"remove the records of deleted nodes", "address", d.addr, "left to", d.owner, "not to", d.others)
		}
	}
	for _, r := range found.refused {
		if !slices.Contains(n.found.refused, r) {
			controller.Logger(ctx, n.log).Error("Address of a node refused", "node", r.node, "address", r.addr, "because it is", r.why)
		}
	}
	n.found = found
	var texts []string
	for _, key := range slices.Sorted(maps.Keys(n.records.mistakes)) {
		texts = append(texts, fmt.Sprintf("the record %.300s of a node is ignored: %s", key, n.records.mistakes[key]))
	}
	for _, r := range found.refused {
		texts = append(texts, r.String())
	}
	for _, d := range found.disputed {
		texts = append(texts, d.String())
	}
	if more := len(texts) - maxNamed; more > 0 {
		texts = append(texts[:maxNamed], fmt.Sprintf("%d more records or addresses of nodes are not used", more))
	}
	n.problems.Store(&texts)
}

// Problems reports records, and addresses in records, that are not used. It is safe for concurrent use.
func (n *NodeSync) Problems(context.Context) []string {
	if texts := n.problems.Load(); texts != nil {
		return *texts
	}
	return nil
}

func (n *NodeSync) identify(ctx context.Context, own *Node, stored *vppnode.VppNode) error {
	n.mu.RLock()
	known := n.nodes[n.nodeName]
	n.mu.RUnlock()
	switch {
	case known != nil && known.ID != 0:
		own.ID, own.VPPIPs, own.OwnStack, own.IPAMOptions = known.ID, known.VPPIPs, known.OwnStack, known.IPAMOptions
		own.PodAddresses, own.Host = known.PodAddresses, known.Host
		if stored != nil && stored.GetId() != own.ID {
			stored = nil
		}
		n.stored = stored
		return n.store(ctx, own.vppNode())
	case own.ID != 0:
		n.stored = stored
		controller.Logger(ctx, n.log).Info("Node ID known", "id", own.ID)
		return nil
	}
	claimed, err := allocate(ctx, n.db, n.nodeName)
	if err != nil {
		return controller.NewFatalError(err)
	}
	own.setVPPNode(claimed, Host{})
	n.stored = claimed
	controller.Logger(ctx, n.log).Info("Node ID claimed", "id", own.ID)
	return nil
}

// Update applies changes of nodes.
func (n *NodeSync) Update(ctx context.Context, event controller.Event, _ controller.UpdateOperations) (string, error) {
	switch event := event.(type) {
	case *PublishAgain:
		return "", n.publishAgain(ctx)
	case *HostChange:
		return n.hostChanged(ctx, event.Host)
	}
	change, ok := event.(*controller.KubeStateChange)
	if !ok {
		return "", nil
	}
	var updates []*NodeUpdate
	var err error
	switch change.Resource {
	case "node":
		updates, err = n.kubeNodeChanged(ctx, change)
	case "vppnode":
		updates, err = n.vppNodeChanged(ctx, change)
	}
	if err != nil {
		return "", err
	}
	for _, update := range updates {
		if err := n.loop.PushEvent(ctx, update); err != nil {
			return "", fmt.Errorf("announce the update of node %s: %w", update.NodeName, err)
		}
	}
	if len(updates) == 0 {
		return "", nil
	}
	return fmt.Sprintf("update of node %s", updates[0].NodeName), nil
}

// Revert does nothing.
func (*NodeSync) Revert(context.Context, controller.Event) error { return nil }

func (n *NodeSync) recompute(ctx context.Context) (list []*NodeUpdate) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.nodes
	nodes, found := n.records.nodes(before[n.nodeName])
	for name, next := range nodes {
		prev := before[name]
		if prev == nil {
			prev = &Node{Name: name}
		}
		if prev.sameAs(next) {
			nodes[name] = prev
		}
		if u := announced(prev, next, name == n.nodeName); u != nil {
			list = append(list, u)
		}
	}
	for name, prev := range before {
		if nodes[name] == nil {
			if u := announced(prev, &Node{Name: name}, name == n.nodeName); u != nil {
				list = append(list, u)
			}
		}
	}
	for name, node := range nodes {
		if node.ID == 0 && !node.inKube {
			delete(nodes, name)
		}
	}
	n.nodes, n.withID = nodes, nil
	n.tell(ctx, found)
	// Nodes leave before others join.
	slices.SortFunc(list, func(a, b *NodeUpdate) int {
		left := func(u *NodeUpdate) int {
			if u.NewState == nil {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(left(a), left(b)), cmp.Compare(a.NodeName, b.NodeName))
	})
	return list
}

func announced(prev, next *Node, own bool) *NodeUpdate {
	if prev.ID == 0 && next.ID == 0 {
		return nil
	}
	vppSame := prev.ID == next.ID && slices.Equal(prev.VPPIPs, next.VPPIPs) && sameStack(prev.OwnStack, next.OwnStack) &&
		samePodAddresses(prev.PodAddresses, next.PodAddresses) && prev.Host.equal(next.Host)
	if (vppSame || own) && slices.Equal(prev.MgmtIPs, next.MgmtIPs) {
		return nil
	}
	update := &NodeUpdate{NodeName: next.Name}
	if prev.ID != 0 {
		update.PrevState = prev
	}
	if next.ID != 0 {
		update.NewState = next
	}
	return update
}

func (n *NodeSync) kubeNodeChanged(ctx context.Context, change *controller.KubeStateChange) ([]*NodeUpdate, error) {
	k, _ := change.NewValue.(*node.Node)
	name := k.GetName()
	if k == nil {
		prev, _ := change.PrevValue.(*node.Node)
		name = prev.GetName()
	}
	if name == "" {
		return nil, nil
	}
	delete(n.records.kubeNodes, name)
	if k != nil {
		n.records.kubeNodes[name] = k
	}
	updates := n.recompute(ctx)
	var err error
	if name == n.nodeName && k != nil {
		n.released = false
		err = n.reclaim(ctx)
	}
	return updates, err
}

func (n *NodeSync) reclaim(ctx context.Context) error {
	n.mu.RLock()
	own := n.nodes[n.nodeName]
	n.mu.RUnlock()
	if n.stored != nil || own == nil || own.ID == 0 {
		return nil
	}
	return n.store(ctx, own.vppNode())
}

func (n *NodeSync) vppNodeChanged(ctx context.Context, change *controller.KubeStateChange) ([]*NodeUpdate, error) {
	prev, _ := change.PrevValue.(*vppnode.VppNode)
	next, _ := change.NewValue.(*vppnode.VppNode)
	id := n.setRecord(ctx, change.Key, next, cmp.Or(next, prev))
	updates := n.recompute(ctx)
	if prev.GetName() == n.nodeName || next.GetName() == n.nodeName {
		return updates, n.ownVPPNodeChanged(ctx, prev, n.records.vppNodes[id])
	}
	return updates, nil
}

// ownVPPNodeChanged tracks this node's record in the store. It restores a record that was removed
// while the node's Kubernetes object exists, or overwritten after this agent published it.
func (n *NodeSync) ownVPPNodeChanged(ctx context.Context, prev, next *vppnode.VppNode) error {
	n.mu.RLock()
	own := n.nodes[n.nodeName]
	n.mu.RUnlock()
	switch {
	case own == nil:
		return nil
	case next.GetName() == n.nodeName && next.GetId() == own.ID:
		if n.stored, n.released = next, false; !n.identified {
			return nil
		}
		return n.store(ctx, own.vppNode())
	case prev.GetId() != own.ID:
		return nil // an entry that this node no longer uses
	}
	n.stored = nil
	if next == nil && !own.inKube {
		n.released = true
		controller.Logger(ctx, n.log).Warn("ID of this node released, because its Node object was deleted", "id", own.ID)
		return nil
	}
	return n.store(ctx, own.vppNode())
}
