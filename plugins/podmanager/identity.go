package podmanager

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A sandbox that claims the name of a pod is refused if it is not the pod that Kubernetes has, or if a newer one is wired.

// staleSandboxError says why a sandbox is refused.
type staleSandboxError struct {
	reason string
	// mayChange: Kubernetes' view of the pod may only be late.
	mayChange bool
}

func (e *staleSandboxError) Error() string { return e.reason }

// kubernetesDelay is how long the object of a pod may take from Kubernetes to this node.
const kubernetesDelay = 5 * time.Second

// awaitIdentity returns nil if Kubernetes has the pod of a sandbox on this node, or none with its name. If it has another one, it
// waits: the object may be on its way.
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

// podAndChange returns a pod, nil if Kubernetes does not know it, and a channel that is closed when pods change.
func (m *PodManager) podAndChange(id PodID) (*Pod, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.changed == nil {
		m.changed = make(chan struct{})
	}
	return m.pods[id], m.changed
}

// setPods changes the pods that Kubernetes knows.
func (m *PodManager) setPods(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
}

// arrivals remembers when the first ADDs of sandboxes arrived. The zero value is ready for use.
type arrivals struct {
	mu    sync.Mutex
	first map[string]time.Time
	order []string // the keys of first
}

// maxArrivals bounds how many sandboxes are remembered.
const maxArrivals = 4096

// of returns when the first ADD of a sandbox arrived: now, if none is known.
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

// refusals are the sandboxes that were refused and still exist. The zero value is ready for use.
type refusals struct {
	mu   sync.Mutex
	byID map[string]refusal
}

type refusal struct{ netns, network, reason string }

// maxRefusals bounds how many sandboxes are reported.
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

// remove forgets those sandboxes that match.
func (r *refusals) remove(match func(containerID, network string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, refused := range r.byID {
		if match(id, refused.network) {
			delete(r.byID, id)
		}
	}
}

// RefusedSandboxes says, sorted, which sandboxes were refused because they are not the pod that they claim to be, until their DEL or
// the end of their network namespaces.
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
