package podmanager

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A sandbox is rejected if another pod has its name in Kubernetes, or if a newer sandbox is wired.

type staleSandboxError struct {
	reason string
	// mayChange is set if Kubernetes' view may be late.
	mayChange bool
}

func (e *staleSandboxError) Error() string { return e.reason }

const kubernetesDelay = 5 * time.Second

// awaitIdentity returns nil if Kubernetes has the sandbox's pod on this node, or no pod of its
// name. Otherwise it waits for the pod's object.
func (m *PodManager) awaitIdentity(ctx context.Context, sandbox *LocalPod) error {
	ctx, cancel := context.WithTimeout(ctx, kubernetesDelay)
	defer cancel()
	for {
		kube, changed := m.podAndChange(sandbox.ID)
		if kube == nil || kube.Runs(m.node, sandbox.UID) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return &staleSandboxError{mayChange: true, reason: fmt.Sprintf("sandbox %s%s is not pod %v of this node, %s: in Kubernetes, the pod%s is on node %s. Remove the sandbox; if it is new, KSR or etcd is late: try again later",
				sandbox.ContainerID, ofUID(sandbox.UID), sandbox.ID, m.node, ofUID(kube.UID), kube.NodeName)}
		}
	}
}

func ofUID(uid string) string {
	if uid == "" {
		return ""
	}
	return fmt.Sprintf(" (UID %s)", uid)
}

// podAndChange returns a pod, or nil, and a channel that is closed when pods change.
func (m *PodManager) podAndChange(id PodID) (*Pod, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.changed == nil {
		m.changed = make(chan struct{})
	}
	return m.pods[id], m.changed
}

func (m *PodManager) setPods(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
}

// arrivals holds the times of the first ADD of sandboxes. The zero value is ready for use.
type arrivals struct {
	mu    sync.Mutex
	first map[string]time.Time
	order []string
}

const maxArrivals = 4096

// of returns the time of a sandbox's first ADD, which is now if it is unknown.
func (a *arrivals) of(containerID string, now time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first == nil {
		a.first = map[string]time.Time{}
	}
	if at, known := a.first[containerID]; known {
		return at
	}
	a.first[containerID], a.order = now, append(a.order, containerID)
	if len(a.order) > maxArrivals {
		delete(a.first, a.order[0])
		a.order = slices.Delete(a.order, 0, 1)
	}
	return now
}

// refusals holds rejected sandboxes that still exist. The zero value is ready for use.
type refusals struct {
	mu   sync.Mutex
	byID map[string]refusal
}

type refusal struct{ netns, network, reason string }

const maxRefusals = 256

func (r *refusals) add(sandbox *LocalPod, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID == nil {
		r.byID = map[string]refusal{}
	}
	if len(r.byID) < maxRefusals {
		r.byID[sandbox.ContainerID] = refusal{sandbox.NetNS, sandbox.Network, reason}
	}
}

func (r *refusals) forget(containerID string) {
	r.remove(func(id, _ string) bool { return id == containerID })
}

func (r *refusals) remove(match func(containerID, network string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, refused := range r.byID {
		if match(id, refused.network) {
			delete(r.byID, id)
		}
	}
}

// RefusedSandboxes describes, sorted, the sandboxes rejected because another pod has their name. A
// sandbox is listed until its DEL or the end of its network namespace.
func (m *PodManager) RefusedSandboxes() (problems []string) {
	m.refused.mu.Lock()
	defer m.refused.mu.Unlock()
	for id, r := range m.refused.byID {
		if _, err := m.namespaces(r.netns); err != nil && !mayExist(err) {
			delete(m.refused.byID, id)
			continue
		}
		problems = append(problems, r.reason)
	}
	slices.Sort(problems)
	return problems
}
