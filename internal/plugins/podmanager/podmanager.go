package podmanager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"

	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store"
)

// StorePrefix is the prefix of local pods in the local store. A key ends with the pod's namespace
// and name. The value is a LocalPod as JSON.
const StorePrefix = "/local/podmanager/pods/"

// PodManager is the event handler.
type PodManager struct {
	node       string
	db         *recorder
	namespaces Namespaces
	loop       controller.EventLoop
	log        *slog.Logger
	ready      chan struct{} // closed by the first resync
	missedDels string        // directory, may be empty

	line     line
	arrivals arrivals
	refused  refusals

	mu    sync.RWMutex
	local LocalPods
	pods  Pods
	// changed is closed when pods changes. It is nil without waiters.
	changed chan struct{}
}

// New returns the plugin of a node. It persists local pods in db and pushes follow-up events to the
// loop. missedDels is the directory of DELs that came while no agent ran (cniwire.MissedDelsDir),
// or "".
func New(node string, db store.Broker, namespaces Namespaces, missedDels string, loop controller.EventLoop, log *slog.Logger) *PodManager {
	return &PodManager{node: node, db: &recorder{Broker: db, due: make(chan struct{}, 1)}, namespaces: namespaces, loop: loop, missedDels: missedDels, log: log, ready: make(chan struct{}), local: LocalPods{}, pods: Pods{}}
}

// LocalPods returns the pods wired on this node.
func (m *PodManager) LocalPods() LocalPods {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return maps.Clone(m.local)
}

// LocalPod returns a pod wired on this node. It is read-only.
func (m *PodManager) LocalPod(id PodID) (*LocalPod, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, ok := m.local[id]
	return p, ok
}

// Pods returns the pods in Kubernetes.
func (m *PodManager) Pods() Pods {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return maps.Clone(m.pods)
}

// Pod returns a pod in Kubernetes. It is read-only.
func (m *PodManager) Pod(id PodID) (*Pod, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, ok := m.pods[id]
	return p, ok
}

// PodOf returns the Kubernetes pod of a sandbox of this node, but no other pod with its name. It is
// read-only.
func (m *PodManager) PodOf(sandbox *LocalPod) (*Pod, bool) {
	p, known := m.Pod(sandbox.ID)
	if !known || !p.Runs(m.node, sandbox.UID) {
		return nil, false
	}
	return p, true
}

// IsFormer reports whether another pod has taken the name of a sandbox's pod in Kubernetes.
func (m *PodManager) IsFormer(sandbox *LocalPod) bool {
	p, known := m.Pod(sandbox.ID)
	return known && !p.Runs(m.node, sandbox.UID)
}

func (m *PodManager) byContainer(containerID, ifName string) (*LocalPod, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, p := range m.local {
		if p.ContainerID == containerID && p.IfName == ifName {
			return p, true
		}
	}
	return nil, false
}

func (m *PodManager) setLocal(p *LocalPod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.local[p.ID] = p
}

func (m *PodManager) String() string { return "podmanager" }

// HandlesEvent accepts resyncs, and events and changes of pods.
func (m *PodManager) HandlesEvent(event controller.Event) bool {
	switch event := event.(type) {
	case *AddPod, *DeletePod, *CheckPod, *PodCustomIfUpdate:
		return true
	case *controller.KubeStateChange:
		return event.Resource == "pod"
	}
	return event.Method() != controller.Update
}

// Resync restores the local pods, the first time from the store. It removes pods that were deleted
// while no agent ran or have lost their network namespace.
func (m *PodManager) Resync(ctx context.Context, _ controller.Event, state controller.KubeState, resyncCount int, _ controller.ResyncOperations) error {
	if resyncCount == 1 {
		if err := m.restore(ctx); err != nil {
			return err
		}
	}
	m.makeUpForMissedDels(ctx)
	for id, p := range m.LocalPods() {
		netns, err := m.namespaces(p.NetNS)
		if err == nil && netns == p.NetNSID {
			continue
		}
		if err != nil && mayExist(err) {
			controller.Logger(ctx, m.log).Error("Reading the network namespace of a pod failed: keeping the pod", "pod", id, "netns", p.NetNS, "error", err)
			continue
		}
		controller.Logger(ctx, m.log).Info("Removing a pod without network namespace", "pod", id, "netns", p.NetNS)
		m.forget(ctx, id)
	}

	pods := Pods{}
	for _, value := range state["pod"] {
		if p, ok := value.(*pod.Pod); ok {
			pods[IDOf(p)] = FromKube(p)
		}
	}
	m.setPods(func() { m.pods = pods })
	for id := range m.LocalPods() {
		m.declare(ctx, id)
	}
	select {
	case <-m.ready:
	default:
		close(m.ready)
	}
	return nil
}

func (m *PodManager) restore(ctx context.Context) error {
	log := controller.Logger(ctx, m.log)
	pods, unusable, err := LoadLocalPods(ctx, m.db)
	for _, p := range pods {
		m.setLocal(p)
	}
	for key, reason := range unusable {
		log.Error("Removing an invalid record of a local pod", "key", key, "error", reason)
		if err := m.db.Delete(ctx, key); err != nil {
			log.Error("Removing an invalid record failed", "key", key, "error", err)
		}
	}
	return err
}

// LoadLocalPods reads the pods in an agent's local store. It returns the reasons why records are
// invalid by key.
func LoadLocalPods(ctx context.Context, db store.Broker) (LocalPods, map[string]error, error) {
	kvs, _, err := db.List(ctx, StorePrefix)
	if err != nil {
		return nil, nil, fmt.Errorf("read the local pods from the local store: %w", err)
	}
	pods, unusable := LocalPods{}, make(map[string]error)
	for _, kv := range kvs {
		p := &LocalPod{}
		err := json.Unmarshal(kv.Value, p)
		if err == nil && storeKey(p.ID) != kv.Key {
			err = fmt.Errorf("the record belongs to %v", p.ID)
		}
		if err != nil {
			unusable[kv.Key] = err
			continue
		}
		pods[p.ID] = p
	}
	return pods, unusable, nil
}

func storeKey(id PodID) string { return StorePrefix + id.Namespace + "/" + id.Name }

func (m *PodManager) remember(ctx context.Context, p *LocalPod) error {
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	m.db.begin()
	if err := m.db.Put(ctx, storeKey(p.ID), data); err != nil {
		return fmt.Errorf("remember pod %v in the local store: %w", p.ID, err)
	}
	m.setLocal(p)
	return nil
}

// forget removes a local pod. If the store fails, the next restart drops the record with the
// namespace.
func (m *PodManager) forget(ctx context.Context, id PodID) {
	m.mu.Lock()
	delete(m.local, id)
	m.mu.Unlock()
	if err := m.db.Delete(ctx, storeKey(id)); err != nil {
		controller.Logger(ctx, m.log).Error("Removing the record of a local pod failed", "pod", id, "error", err)
	}
}

// Update records added and deleted pods.
func (m *PodManager) Update(ctx context.Context, event controller.Event, _ controller.UpdateOperations) (string, error) {
	switch event := event.(type) {
	case *AddPod:
		return m.addPod(ctx, event)
	case *DeletePod:
		if p, known := m.LocalPod(event.Pod); known && p.ContainerID == event.ContainerID {
			m.forget(ctx, event.Pod)
			return fmt.Sprintf("forget pod %v", event.Pod), nil
		}
	case *CheckPod:
		if p, known := m.LocalPod(event.Pod); !known || p.ContainerID != event.ContainerID {
			return "", fmt.Errorf("container %s of pod %v: %w", event.ContainerID, event.Pod, ErrNotWired)
		}
	case *controller.KubeStateChange:
		return "", m.podChanged(ctx, event)
	case *PodCustomIfUpdate:
		event.Before = m.declare(ctx, event.Pod)
	}
	return "", nil
}

func (m *PodManager) podChanged(ctx context.Context, event *controller.KubeStateChange) error {
	if p, ok := event.NewValue.(*pod.Pod); ok && p != nil {
		m.setPods(func() { m.pods[IDOf(p)] = FromKube(p) })
		return m.followAnnotations(ctx, IDOf(p))
	}
	if p, ok := event.PrevValue.(*pod.Pod); ok && p != nil {
		m.setPods(func() { delete(m.pods, IDOf(p)) })
	}
	return nil
}

var errObsolete = errors.New("the pod is connected for another sandbox, which must be removed first")

// ErrNotWired is wrapped by errors about containers without a network.
var ErrNotWired = errors.New("not connected by this agent")

func (m *PodManager) addPod(ctx context.Context, event *AddPod) (string, error) {
	if err := event.caller.Err(); err != nil {
		return "", fmt.Errorf("no request for pod %v is waiting any more: %w", event.Pod, err)
	}
	netns, err := m.namespaces(event.NetNS)
	if err != nil {
		return "", err
	}
	p := &event.pod
	p.NetNSID = netns
	if current, known := m.LocalPod(event.Pod); known {
		switch {
		case current.sameAttachment(p) && current.NetNSID == p.NetNSID:
			return "", nil
		case p.isSecondOf(current):
			return "", fmt.Errorf("container %s of pod %v is connected with interface %s, and a second attachment is not possible: declare further interfaces with the annotation %s of the pod instead of CNI_IFNAME=%s",
				p.ContainerID, p.ID, current.IfName, CustomIfAnnotation, p.IfName)
		case current.isNewerThan(p):
			return "", &staleSandboxError{reason: fmt.Sprintf("sandbox %s of pod %v is older than %s, which is connected, so it gets no network: remove it", p.ContainerID, p.ID, current.ContainerID)}
		}
		event.obsolete = current
		return "", errObsolete
	}
	m.dropMissedDel(ctx, p.ContainerID, p.IfName)
	if err := m.remember(ctx, p); err != nil {
		return "", err
	}
	event.added = true
	if err := m.followAnnotations(ctx, p.ID); err != nil {
		controller.Logger(ctx, m.log).Error("Custom interfaces of a pod wait for the next resync", "pod", p.ID, "error", err)
	}
	return fmt.Sprintf("remember pod %v", event.Pod), nil
}

// Revert removes the pod of a failed AddPod.
func (m *PodManager) Revert(ctx context.Context, event controller.Event) error {
	if add, ok := event.(*AddPod); ok && add.added {
		m.db.end()
		m.forget(ctx, add.Pod)
	}
	return nil
}
