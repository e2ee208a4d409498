package ipam

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/podmanager"
)

// Config is the part of the configuration that IPAM needs.
type Config interface {
	NodeName() string
	Subnets() contivconf.Subnets
	StaticGateways() []netip.Addr
	// ExternalIPAM reports whether another IPAM plugin assigns the addresses.
	ExternalIPAM() bool
}

// Nodes looks up nodes, including this one.
type Nodes interface {
	GetNodeID() uint32
	GetAllNodes() nodesync.Nodes
}

// PodSource looks up pods.
type PodSource interface {
	LocalPods() podmanager.LocalPods
	LocalPod(podmanager.PodID) (*podmanager.LocalPod, bool)
	Pods() podmanager.Pods
	Pod(podmanager.PodID) (*podmanager.Pod, bool)
}

// IPAM is the plugin.
type IPAM struct {
	config Config
	nodes  Nodes
	pods   PodSource
	loop   controller.EventLoop
	saved  records
	log    *slog.Logger

	mu     sync.RWMutex
	pools  pools // nil before the first resync
	custom custom
	uids   map[podmanager.PodID]string
}

// New returns the plugin. It persists allocations in db.
func New(config Config, nodes Nodes, pods PodSource, loop controller.EventLoop, db store.Broker, log *slog.Logger) *IPAM {
	return &IPAM{config: config, nodes: nodes, pods: pods, loop: loop, saved: records{db: db}, log: log, custom: newCustom(), uids: map[podmanager.PodID]string{}}
}

// Plan returns the address plan of the first IP version.
func (i *IPAM) Plan() Plan {
	return Plan{Subnets: i.config.Subnets(), ExcludedNodeIPs: i.config.StaticGateways()}
}

// GetPodIPs returns the addresses of a pod of this node, one of each IP version of the pods.
func (i *IPAM) GetPodIPs(id podmanager.PodID) []netip.Addr {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.pools.addresses(id)
}

// Usage returns the number of used pod addresses and the capacity, of the IP version with the
// smaller capacity.
func (i *IPAM) Usage() (used, capacity uint64) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	for _, p := range i.pools {
		if capacity == 0 || p.capacity() < capacity {
			used, capacity = uint64(len(p.byOwner)), p.capacity()
		}
	}
	return used, capacity
}

// Full lists the pod subnets of this node without a free address.
func (i *IPAM) Full() (problems []string) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	for _, p := range i.pools {
		if used := uint64(len(p.byAddr)); used >= p.capacity() {
			problems = append(problems, fmt.Sprintf("pod subnet %v is full: all %d addresses are in use, so no further pod can start on this node: remove pods, or enlarge the subnet with %s", p.subnet, used, p.option))
		}
	}
	return problems
}

func (*IPAM) String() string { return "ipam" }

// HandlesEvent accepts resyncs and events of pods on this node and in Kubernetes.
func (*IPAM) HandlesEvent(event controller.Event) bool {
	switch event := event.(type) {
	case *podmanager.AddPod, *podmanager.DeletePod:
		return true
	case *controller.KubeStateChange:
		return event.Resource == "pod" || event.Resource == "node"
	}
	return event.Method() != controller.Update
}

// Resync restores the allocations, first from the store, then from Kubernetes. It releases
// addresses without a holder. It fails if changed options would move the addresses of wired pods.
func (i *IPAM) Resync(ctx context.Context, _ controller.Event, _ controller.KubeState, resyncCount int, _ controller.ResyncOperations) error {
	subnets, err := i.subnets()
	if err != nil {
		return err
	}
	if resyncCount == 1 {
		if err := i.checkPlan(ctx); err != nil {
			return controller.NewFatalError(err)
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if resyncCount == 1 || !i.pools.haveSubnets(subnets) {
		i.pools = nil
		for _, subnet := range subnets {
			i.pools = append(i.pools, newPool(subnet, "ipamConfig.podSubnetOneNodePrefixLen"))
		}
		if err := i.restore(ctx); err != nil {
			return controller.NewFatalError(err)
		}
	}
	for id := range i.allPods() {
		if len(i.holders(id)) == 0 {
			i.release(ctx, id)
		}
	}
	if i.config.ExternalIPAM() {
		return nil
	}
	i.learnAll(ctx)
	for id := range i.pods.LocalPods() {
		if i.pools.complete(id) {
			continue
		}
		before := i.pools.addresses(id)
		addrs, err := i.allocate(ctx, id)
		if err != nil {
			return fmt.Errorf("address of pod %v: %w", id, err)
		}
		controller.Logger(ctx, i.log).Warn("Addresses of a connected pod were missing, allocating new ones", "pod", id, "known", before, "ips", addrs)
	}
	return nil
}

func (i *IPAM) subnets() ([]netip.Prefix, error) {
	var subnets []netip.Prefix
	plan := i.Plan()
	own := i.nodes.GetAllNodes()[i.config.NodeName()]
	if own == nil {
		own = &nodesync.Node{ID: i.nodes.GetNodeID(), Name: i.config.NodeName()}
	}
	for _, family := range plan.Families() {
		subnet, err := i.PodSubnet(&family, own)
		if err != nil {
			return nil, err
		}
		subnets = append(subnets, subnet)
	}
	return subnets, nil
}

func (i *IPAM) restore(ctx context.Context) error {
	log := controller.Logger(ctx, i.log)
	list, err := i.saved.load(ctx, log)
	if err != nil {
		return err
	}
	last, err := i.saved.last(ctx)
	if err != nil {
		return err
	}
	i.custom.forget()
	clear(i.uids)
	for _, r := range list {
		i.setUID(r.id, r.UID)
		for _, addr := range []netip.Addr{r.IP, r.Second} {
			if !addr.IsValid() {
				continue
			}
			if err := i.pools.learn(mainOf(r.id), addr); err != nil {
				log.Warn("Stored address of a pod is no longer valid", "pod", r.id, "error", err)
				continue
			}
			i.pools.of(addr).moveTo(addr) // the newest record comes last
		}
		i.restoreCustom(log, r)
		if len(i.pools.addresses(r.id)) == 0 && len(i.custom.ips[r.id]) == 0 {
			delete(i.uids, r.id)
			i.saved.remove(ctx, r.id, log)
		}
	}
	for _, addr := range last {
		if p := i.pools.of(addr); p != nil {
			p.moveTo(addr)
		}
	}
	return nil
}

func (i *IPAM) learnAll(ctx context.Context) {
	fresh := len(i.pools.pods()) == 0
	var pods []*podmanager.Pod
	for _, p := range i.pods.Pods() {
		if i.isHere(p) && len(i.addressesHere(p)) > 0 {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b *podmanager.Pod) int {
		return cmp.Or(i.addressesHere(a)[0].Compare(i.addressesHere(b)[0]), cmp.Compare(a.ID.String(), b.ID.String()))
	})
	for _, p := range pods {
		if i.learn(ctx, p) && fresh {
			for _, addr := range i.pools.addresses(p.ID) {
				i.pools.of(addr).moveTo(addr)
			}
		}
	}
}

func (i *IPAM) isHere(p *podmanager.Pod) bool {
	return !p.HostNetwork && !p.Finished && (p.NodeName == "" || p.NodeName == i.config.NodeName())
}

func (i *IPAM) addressesHere(p *podmanager.Pod) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(p.IPs), func(ip netip.Addr) bool { return i.pools.of(ip) == nil })
}

func (i *IPAM) setUID(id podmanager.PodID, uid string) {
	if uid != "" {
		i.uids[id] = uid
	}
}

// isOf reports whether the addresses of the name may belong to the pod with the UID.
func (i *IPAM) isOf(id podmanager.PodID, uid string) bool {
	return uid == "" || i.uids[id] == "" || i.uids[id] == uid
}

// learn records the pod's addresses in Kubernetes if they are new. It reports whether any was.
func (i *IPAM) learn(ctx context.Context, p *podmanager.Pod) bool {
	var learned bool
	for _, addr := range i.addressesHere(p) {
		if _, known := i.pools.of(addr).byOwner[mainOf(p.ID)]; known {
			continue
		}
		if err := i.pools.learn(mainOf(p.ID), addr); err != nil {
			controller.Logger(ctx, i.log).Warn("Address of a pod in Kubernetes ignored", "pod", p.ID, "error", err)
			continue
		}
		learned = true
	}
	if !learned {
		return false
	}
	i.setUID(p.ID, p.UID)
	if err := i.save(ctx, p.ID); err != nil {
		controller.Logger(ctx, i.log).Warn("Storing an address from Kubernetes failed", "pod", p.ID, "error", err)
	}
	return true
}

func (i *IPAM) allocate(ctx context.Context, id podmanager.PodID) ([]netip.Addr, error) {
	if i.pools.complete(id) {
		return i.pools.addresses(id), nil
	}
	addrs, undo, err := i.pools.allocate(mainOf(id))
	if err != nil {
		return nil, err
	}
	if err := i.save(ctx, id); err != nil {
		undo()
		return nil, err
	}
	return addrs, nil
}

func (i *IPAM) save(ctx context.Context, id podmanager.PodID) error {
	return i.saved.save(ctx, id, i.uids[id], i.pools.addresses(id), i.custom.ips[id])
}

func (i *IPAM) release(ctx context.Context, id podmanager.PodID) {
	if last := slices.DeleteFunc(i.pools.addresses(id), func(addr netip.Addr) bool { return !i.pools.isLast(addr) }); len(last) > 0 {
		i.saved.keepLast(ctx, last, controller.Logger(ctx, i.log))
	}
	i.pools.release(mainOf(id))
	i.releaseCustom(id)
	delete(i.uids, id)
	i.saved.remove(ctx, id, controller.Logger(ctx, i.log))
	i.wake(ctx)
}

// holder is the reason why an address is in use.
type holder string

const (
	heldLocally      holder = "local"
	heldByKubernetes holder = "kubernetes"
)

func (i *IPAM) holders(id podmanager.PodID) []holder {
	var holders []holder
	if _, wired := i.pods.LocalPod(id); wired {
		holders = append(holders, heldLocally)
	}
	if p, known := i.pods.Pod(id); known && i.isHere(p) && i.isOf(id, p.UID) && !i.config.ExternalIPAM() {
		holders = append(holders, heldByKubernetes)
	}
	return holders
}

// releaseUnlessHeld releases the addresses of a pod that lost the holder gone, unless another
// holder remains.
func (i *IPAM) releaseUnlessHeld(ctx context.Context, id podmanager.PodID, gone holder) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	addrs := i.pools.addresses(id)
	for _, c := range i.custom.ips[id] {
		addrs = append(addrs, c.IP)
	}
	if len(addrs) == 0 {
		return ""
	}
	if slices.ContainsFunc(i.holders(id), func(h holder) bool { return h != gone }) {
		return ""
	}
	i.release(ctx, id)
	return fmt.Sprintf("release %s of pod %v", list(addrs), id)
}

// Update allocates and releases addresses as pods come and go.
func (i *IPAM) Update(ctx context.Context, event controller.Event, _ controller.UpdateOperations) (string, error) {
	switch event := event.(type) {
	case *podmanager.AddPod:
		i.mu.Lock()
		defer i.mu.Unlock()
		known := i.pools.complete(event.Pod)
		addrs, err := i.assign(ctx, event)
		if err != nil {
			if !i.allPods()[event.Pod] {
				delete(i.uids, event.Pod)
			}
			return "", fmt.Errorf("address of pod %v: %w", event.Pod, err)
		}
		if known {
			return "", nil
		}
		return fmt.Sprintf("allocate %s to pod %v", list(addrs), event.Pod), nil
	case *podmanager.DeletePod:
		if p, wired := i.pods.LocalPod(event.Pod); wired && p.ContainerID == event.ContainerID {
			return i.releaseUnlessHeld(ctx, event.Pod, heldLocally), nil
		}
	case *controller.KubeStateChange:
		if event.Resource == "node" {
			return i.kubeNodeChanged(ctx, event)
		}
		return i.kubePodChanged(ctx, event), nil
	}
	return "", nil
}

func (i *IPAM) holdsFor(p *podmanager.Pod) bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.isOf(p.ID, p.UID)
}

func (i *IPAM) kubePodChanged(ctx context.Context, change *controller.KubeStateChange) string {
	p, _ := change.NewValue.(*pod.Pod)
	if p == nil {
		if p, _ = change.PrevValue.(*pod.Pod); p == nil {
			return ""
		}
		// This handler runs before the one that removes the pod.
		return i.releaseUnlessHeld(ctx, podmanager.IDOf(p), heldByKubernetes)
	}
	current := podmanager.FromKube(p)
	released := ""
	if !i.isHere(current) || !i.holdsFor(current) {
		released = i.releaseUnlessHeld(ctx, current.ID, heldByKubernetes)
	}
	if !i.isHere(current) || i.config.ExternalIPAM() {
		return released
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.learn(ctx, current) {
		return fmt.Sprintf("learn %s of pod %v", list(i.pools.addresses(current.ID)), current.ID)
	}
	return released
}

// Revert releases the address of a failed AddPod, unless the pod's Kubernetes object holds it for
// the next attempt.
func (i *IPAM) Revert(ctx context.Context, event controller.Event) error {
	if add, ok := event.(*podmanager.AddPod); ok && !add.WasWired() {
		i.releaseUnlessHeld(ctx, add.Pod, heldLocally)
	}
	return nil
}

func list(addrs []netip.Addr) string {
	var texts []string
	for _, a := range addrs {
		texts = append(texts, a.String())
	}
	return strings.Join(texts, ", ")
}
