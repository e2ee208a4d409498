package ipam

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"

	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/plugins/contivconf"
	"github.com/contiv/contiv/plugins/podmanager"
	"github.com/contiv/contiv/store"
)

// Config is what IPAM needs of the configuration.
type Config interface {
	NodeName() string
	Subnets() contivconf.Subnets
	// StaticGateway is the zero Addr if there is none.
	StaticGateway() netip.Addr
}

// NodeIDs knows the ID of this node.
type NodeIDs interface{ GetNodeID() uint32 }

// PodSource knows the pods.
type PodSource interface {
	LocalPods() podmanager.LocalPods
	LocalPod(podmanager.PodID) (*podmanager.LocalPod, bool)
	Pods() podmanager.Pods
	Pod(podmanager.PodID) (*podmanager.Pod, bool)
}

// IPAM is the plugin.
type IPAM struct {
	config Config
	nodes  NodeIDs
	pods   PodSource
	saved  records
	log    *slog.Logger

	mu   sync.RWMutex
	pool *pool // nil before the first resync
}

// New returns the plugin, which keeps allocations in db.
func New(config Config, nodes NodeIDs, pods PodSource, db store.Broker, log *slog.Logger) *IPAM {
	return &IPAM{config: config, nodes: nodes, pods: pods, saved: records{db: db}, log: log}
}

// Plan returns the addresses that follow from node IDs.
func (i *IPAM) Plan() Plan {
	p := Plan{Subnets: i.config.Subnets()}
	if gateway := i.config.StaticGateway(); gateway.IsValid() {
		p.ExcludedNodeIPs = []netip.Addr{gateway}
	}
	return p
}

// GetPodIP returns the address of a pod of this node.
func (i *IPAM) GetPodIP(id podmanager.PodID) (netip.Addr, bool) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.pool == nil {
		return netip.Addr{}, false
	}
	addr, ok := i.pool.byPod[id]
	return addr, ok
}

// GetPodFromIP returns the pod of this node that has the address.
func (i *IPAM) GetPodFromIP(addr netip.Addr) (podmanager.PodID, bool) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.pool == nil {
		return podmanager.PodID{}, false
	}
	id, ok := i.pool.byAddr[addr]
	return id, ok
}

// Usage returns how many addresses of pods are in use, and how many there are.
func (i *IPAM) Usage() (used, capacity uint64) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.pool == nil {
		return 0, 0
	}
	return uint64(len(i.pool.byPod)), i.pool.capacity()
}

func (*IPAM) String() string { return "ipam" }

// HandlesEvent accepts resyncs, the life of pods on this node and in Kubernetes.
func (*IPAM) HandlesEvent(event controller.Event) bool {
	switch event := event.(type) {
	case *podmanager.AddPod, *podmanager.DeletePod:
		return true
	case *controller.KubeStateChange:
		return event.Resource == "pod"
	}
	return event.Method() != controller.Update
}

// Resync restores the allocations: the persisted ones first, then those that
// Kubernetes knows. Addresses that nobody holds any more are released.
func (i *IPAM) Resync(ctx context.Context, _ controller.Event, _ controller.KubeState, resyncCount int, _ controller.ResyncOperations) error {
	plan := i.Plan()
	subnet, err := plan.PodSubnet(i.nodes.GetNodeID())
	if err != nil {
		return controller.NewFatalError(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.pool == nil || i.pool.subnet != subnet || resyncCount == 1 {
		i.pool = newPool(subnet)
		if err := i.restore(ctx); err != nil {
			return controller.NewFatalError(err)
		}
	}
	for id := range i.pool.byPod {
		if len(i.holders(id)) == 0 {
			i.release(ctx, id)
		}
	}
	i.learnAll(ctx)
	for id := range i.pods.LocalPods() {
		if _, known := i.pool.byPod[id]; known {
			continue
		}
		addr, err := i.allocate(ctx, id)
		if err != nil {
			return fmt.Errorf("address of pod %v: %w", id, err)
		}
		controller.Logger(ctx, i.log).Warn("Address of a wired pod was not known: it gets a new one", "pod", id, "ip", addr)
	}
	return nil
}

// restore reads the persisted allocations. Those that do not fit the subnet are
// of another configuration, and removed.
func (i *IPAM) restore(ctx context.Context) error {
	list, err := i.saved.load(ctx, controller.Logger(ctx, i.log))
	if err != nil {
		return err
	}
	for _, r := range list {
		if err := i.pool.learn(r.id, r.IP); err != nil {
			controller.Logger(ctx, i.log).Warn("Persisted address of a pod is no longer valid", "pod", r.id, "error", err)
			i.saved.remove(ctx, r.id, controller.Logger(ctx, i.log))
			continue
		}
		i.pool.moveTo(r.IP) // the newest record is the last one
	}
	return nil
}

// learnAll takes over the addresses of Kubernetes' pods, in ascending order.
func (i *IPAM) learnAll(ctx context.Context) {
	fresh := len(i.pool.byPod) == 0
	var pods []*podmanager.Pod
	for _, p := range i.pods.Pods() {
		if i.isHere(p) && i.addressHere(p).IsValid() {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b *podmanager.Pod) int {
		return cmp.Or(i.addressHere(a).Compare(i.addressHere(b)), cmp.Compare(a.ID.String(), b.ID.String()))
	})
	for _, p := range pods {
		if i.learn(ctx, p) && fresh {
			i.pool.moveTo(i.addressHere(p))
		}
	}
}

// isHere tells if Kubernetes' pod may use an address of this node.
func (i *IPAM) isHere(p *podmanager.Pod) bool {
	return !p.HostNetwork && !p.Finished && (p.NodeName == "" || p.NodeName == i.config.NodeName())
}

// addressHere returns the pod's address in this node's subnet, if it has one.
func (i *IPAM) addressHere(p *podmanager.Pod) netip.Addr {
	for _, ip := range p.IPs {
		if i.pool.subnet.Contains(ip) {
			return ip
		}
	}
	return netip.Addr{}
}

// learn takes over the address that Kubernetes knows of a pod, if it has none.
func (i *IPAM) learn(ctx context.Context, p *podmanager.Pod) bool {
	addr := i.addressHere(p)
	if _, known := i.pool.byPod[p.ID]; known || !addr.IsValid() {
		return false
	}
	if err := i.pool.learn(p.ID, addr); err != nil {
		controller.Logger(ctx, i.log).Warn("Address of a pod in Kubernetes is ignored", "pod", p.ID, "error", err)
		return false
	}
	if err := i.saved.save(ctx, p.ID, addr); err != nil {
		controller.Logger(ctx, i.log).Warn("Address learned from Kubernetes was not persisted", "pod", p.ID, "error", err)
	}
	return true
}

// allocate returns the address of a pod, persisted.
func (i *IPAM) allocate(ctx context.Context, id podmanager.PodID) (netip.Addr, error) {
	if addr, known := i.pool.byPod[id]; known {
		return addr, nil
	}
	addr, err := i.pool.allocate(id)
	if err != nil {
		return addr, err
	}
	if err := i.saved.save(ctx, id, addr); err != nil {
		i.pool.release(id)
		return netip.Addr{}, err
	}
	return addr, nil
}

func (i *IPAM) release(ctx context.Context, id podmanager.PodID) {
	i.pool.release(id)
	i.saved.remove(ctx, id, controller.Logger(ctx, i.log))
}

// holder says why an address is not free.
type holder string

const (
	heldLocally      holder = "local"
	heldByKubernetes holder = "kubernetes"
)

// holders returns why the address of a pod is not free.
func (i *IPAM) holders(id podmanager.PodID) []holder {
	var holders []holder
	if _, wired := i.pods.LocalPod(id); wired {
		holders = append(holders, heldLocally)
	}
	if p, known := i.pods.Pod(id); known && i.isHere(p) {
		holders = append(holders, heldByKubernetes)
	}
	return holders
}

// releaseUnlessHeld releases the address of a pod that is no longer held as
// gone says, unless it is held otherwise.
func (i *IPAM) releaseUnlessHeld(ctx context.Context, id podmanager.PodID, gone holder) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.pool == nil || !i.pool.byPod[id].IsValid() {
		return ""
	}
	if slices.ContainsFunc(i.holders(id), func(h holder) bool { return h != gone }) {
		return ""
	}
	addr := i.pool.byPod[id]
	i.release(ctx, id)
	return fmt.Sprintf("release %v of pod %v", addr, id)
}

// Update follows the life of pods.
func (i *IPAM) Update(ctx context.Context, event controller.Event, _ controller.UpdateOperations) (string, error) {
	switch event := event.(type) {
	case *podmanager.AddPod:
		i.mu.Lock()
		defer i.mu.Unlock()
		_, known := i.pool.byPod[event.Pod]
		addr, err := i.allocate(ctx, event.Pod)
		if err != nil {
			return "", fmt.Errorf("address of pod %v: %w", event.Pod, err)
		}
		if known {
			return "", nil
		}
		return fmt.Sprintf("allocate %v to pod %v", addr, event.Pod), nil
	case *podmanager.DeletePod:
		if p, wired := i.pods.LocalPod(event.Pod); wired && p.ContainerID == event.ContainerID {
			return i.releaseUnlessHeld(ctx, event.Pod, heldLocally), nil
		}
	case *controller.KubeStateChange:
		return i.kubePodChanged(ctx, event), nil
	}
	return "", nil
}

func (i *IPAM) kubePodChanged(ctx context.Context, change *controller.KubeStateChange) string {
	p, _ := change.NewValue.(*pod.Pod)
	if p == nil {
		if p, _ = change.PrevValue.(*pod.Pod); p == nil {
			return ""
		}
		// This handler comes before the one that forgets the pod.
		return i.releaseUnlessHeld(ctx, podmanager.IDOf(p), heldByKubernetes)
	}
	current := podmanager.FromKube(p)
	if !i.isHere(current) {
		return i.releaseUnlessHeld(ctx, current.ID, heldByKubernetes)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.pool != nil && i.learn(ctx, current) {
		return fmt.Sprintf("learn %v of pod %v", i.pool.byPod[current.ID], current.ID)
	}
	return ""
}

// Revert releases the address of an AddPod that failed, unless the pod's
// Kubernetes object holds it for the next attempt.
func (i *IPAM) Revert(ctx context.Context, event controller.Event) error {
	if add, ok := event.(*podmanager.AddPod); ok && !add.WasWired() {
		i.releaseUnlessHeld(ctx, add.Pod, heldLocally)
	}
	return nil
}
