package nodesync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"

	"github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/api/contiv/vppnode"
	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/store"
	"google.golang.org/protobuf/proto"
)

// NodeSync is the plugin.
type NodeSync struct {
	nodeName string
	db       store.Broker
	loop     controller.EventLoop
	log      *slog.Logger

	// claim of the name; returns nil unless another agent has it.
	claim func() error

	// stored is this node's VppNode in the store, as far as known; nil if it is
	// not there. Used by the event loop only.
	stored *vppnode.VppNode
	// identified says that this agent has published addresses: the name is its own.
	// Used by the event loop only.
	identified bool
	// ownStack is what the others are told of this node's vswitch.
	ownStack *bool
	// hostIPs returns addresses that this machine has beside the published ones.
	hostIPs func() []netip.Prefix

	mu    sync.RWMutex
	nodes Nodes // nil before the first resync
	// withID are those of nodes that have an ID; nil: they are to be found again.
	withID Nodes
}

// New returns the plugin of the node. The IDs are kept in db.
func New(nodeName string, db store.Broker, loop controller.EventLoop, log *slog.Logger) *NodeSync {
	return &NodeSync{nodeName: nodeName, db: db, loop: loop, log: log, claim: func() error { return nil }, hostIPs: func() []netip.Prefix { return nil }}
}

// HostAddresses tells by what this machine is known beside the addresses that are
// published: where the vswitch has a network stack of its own, those of the host. It must
// be called before the first event.
func (n *NodeSync) HostAddresses(list func() []netip.Prefix) { n.hostIPs = list }

// OwnStack makes the plugin tell the others, with the addresses, whether the vswitch has a
// network stack of its own, or that of the host. It must be called before the first event.
func (n *NodeSync) OwnStack(own bool) { n.ownStack = &own }

// ClaimedBy makes the plugin publish nothing while the claim of the node's name is
// another agent's. It must be called before the first event.
func (n *NodeSync) ClaimedBy(c *Claim) { n.claim = c.Err }

// GetNodeID returns the ID of this node; 0 before the first resync.
func (n *NodeSync) GetNodeID() uint32 {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if own := n.nodes[n.nodeName]; own != nil {
		return own.ID
	}
	return 0
}

// GetAllNodes returns all nodes that have an ID, this one included, as they are now.
// Read-only: others get the same map.
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

// replace puts a node in the place of the one with its name; one that is known to
// nobody is dropped. n.mu is held.
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

// PublishNodeIPs tells the other nodes the addresses of one IP version at which
// this node's vswitch is reached; those of the other version stay. If the store
// cannot be reached, the next resync tries again. To be called by handlers of
// the event loop only.
//
// ErrNameTaken is wrapped if the name of this node belongs to another one.
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
	if !slices.Equal(own.VPPIPs, merged) || !sameStack(own.OwnStack, n.ownStack) {
		next := *own
		own, next.VPPIPs, next.OwnStack = &next, merged, n.ownStack
		n.replace(own)
	}
	n.mu.Unlock()
	return n.store(ctx, own.vppNode())
}

func (n *Node) vppNode() *vppnode.VppNode {
	v := &vppnode.VppNode{Id: n.ID, Name: n.Name, OwnNetworkStack: n.OwnStack}
	for _, p := range n.VPPIPs {
		v.IpAddresses = append(v.IpAddresses, p.String())
	}
	return v
}

// store writes this node's VppNode if it is not stored already. Only the loss of
// the ID is an error, a fatal one.
func (n *NodeSync) store(ctx context.Context, next *vppnode.VppNode) error {
	if proto.Equal(n.stored, next) {
		return nil
	}
	err := n.claim()
	if err == nil {
		err = swap(ctx, n.db, next)
	}
	switch {
	case err == nil:
		n.stored = next
	case errors.Is(err, ErrNoNodeID):
		return controller.NewFatalError(err)
	default:
		controller.Logger(ctx, n.log).Warn("Addresses of this node could not be published: other nodes do not learn them before the next resync",
			"addresses", next.IpAddresses, "error", err)
	}
	return nil
}

func (*NodeSync) String() string { return "nodesync" }

// HandlesEvent accepts resyncs and changes of nodes.
func (n *NodeSync) HandlesEvent(event controller.Event) bool {
	if change, ok := event.(*controller.KubeStateChange); ok {
		return change.Resource == "node" || change.Resource == "vppnode"
	}
	return event.Method() != controller.Update
}

// Resync learns all nodes from the state and makes sure that this one has an ID.
func (n *NodeSync) Resync(ctx context.Context, _ controller.Event, state controller.KubeState, _ int, _ controller.ResyncOperations) error {
	nodes := make(Nodes)
	get := func(name string) *Node {
		if nodes[name] == nil {
			nodes[name] = &Node{Name: name}
		}
		return nodes[name]
	}
	var stored *vppnode.VppNode
	for _, value := range state["vppnode"] {
		v, ok := value.(*vppnode.VppNode)
		if !ok || v.GetId() == 0 {
			continue
		}
		if node := get(v.GetName()); node.ID == 0 || v.GetId() < node.ID {
			node.setVPPNode(v)
			if v.GetName() == n.nodeName {
				stored = v
			}
		}
	}
	for _, value := range state["node"] {
		if k, ok := value.(*node.Node); ok {
			get(k.GetName()).setKubeNode(k)
		}
	}
	if err := n.identify(ctx, get(n.nodeName), stored); err != nil {
		return controller.NewFatalError(err)
	}
	n.mu.Lock()
	n.nodes, n.withID = nodes, nil
	n.mu.Unlock()
	return nil
}

// identify gives the own node the ID that it has, or else a new one.
func (n *NodeSync) identify(ctx context.Context, own *Node, stored *vppnode.VppNode) error {
	n.mu.RLock()
	known := n.nodes[n.nodeName]
	n.mu.RUnlock()
	switch {
	case known != nil && known.ID != 0:
		own.ID, own.VPPIPs, own.OwnStack = known.ID, known.VPPIPs, known.OwnStack
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
		return err
	}
	own.setVPPNode(claimed)
	n.stored = claimed
	controller.Logger(ctx, n.log).Info("Node ID claimed", "id", own.ID)
	return nil
}

// Update follows the changes of nodes.
func (n *NodeSync) Update(ctx context.Context, event controller.Event, _ controller.UpdateOperations) (string, error) {
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

// Revert has nothing to undo.
func (*NodeSync) Revert(context.Context, controller.Event) error { return nil }

// change applies a function to a copy of a node and returns what is to be announced, nil
// if nothing is.
func (n *NodeSync) change(name string, apply func(*Node), announce func(prev, next *Node) bool) *NodeUpdate {
	n.mu.Lock()
	defer n.mu.Unlock()
	prev := n.nodes[name]
	if prev == nil {
		prev = &Node{Name: name}
	}
	next := *prev
	apply(&next)
	n.replace(&next)
	if !announce(prev, &next) {
		return nil
	}
	update := &NodeUpdate{NodeName: name}
	if prev.ID != 0 {
		update.PrevState = prev
	}
	if next.ID != 0 {
		update.NewState = &next
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
	update := n.change(name, func(node *Node) { node.setKubeNode(k) }, func(prev, next *Node) bool {
		return next.ID != 0 && !slices.Equal(prev.MgmtIPs, next.MgmtIPs)
	})
	var err error
	if name == n.nodeName && k != nil {
		err = n.reclaim(ctx)
	}
	return updates(update), err
}

// reclaim puts this node's VppNode back that KSR removed because the Kubernetes
// object was deleted, now that the object is there again.
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
	if prev.GetName() == n.nodeName || next.GetName() == n.nodeName {
		return nil, n.ownVPPNodeChanged(ctx, prev, next)
	}
	var left, joined *NodeUpdate
	if prev != nil && prev.GetName() != next.GetName() {
		left = n.change(prev.GetName(), func(node *Node) {
			if node.ID == prev.GetId() { // else it has got another ID meanwhile
				node.setVPPNode(nil)
			}
		}, func(prev, next *Node) bool { return prev.ID != 0 && next.ID == 0 })
	}
	if next.GetId() != 0 && next.GetName() != "" {
		joined = n.change(next.GetName(), func(node *Node) { node.setVPPNode(next) }, func(prev, next *Node) bool {
			return prev.ID != next.ID || !slices.Equal(prev.VPPIPs, next.VPPIPs) || !sameStack(prev.OwnStack, next.OwnStack)
		})
	}
	return updates(left, joined), nil
}

// ownVPPNodeChanged notes what the store holds of this node. What it removed
// while the node's Kubernetes object exists is put back.
func (n *NodeSync) ownVPPNodeChanged(ctx context.Context, prev, next *vppnode.VppNode) error {
	n.mu.RLock()
	own := n.nodes[n.nodeName]
	n.mu.RUnlock()
	switch {
	case own == nil:
		return nil
	case next.GetName() == n.nodeName && next.GetId() == own.ID:
		n.stored = next
		return nil
	case prev.GetId() != own.ID:
		return nil // an entry that this node no longer uses
	}
	n.stored = nil
	if next == nil && !own.inKube {
		controller.Logger(ctx, n.log).Warn("The ID of this node was released: its Kubernetes object is gone", "id", own.ID)
		return nil
	}
	return n.store(ctx, own.vppNode())
}

func updates(list ...*NodeUpdate) []*NodeUpdate {
	return slices.DeleteFunc(list, func(u *NodeUpdate) bool { return u == nil })
}
