// Package hostports makes the vswitch translate host ports of local pods, independent of the service
// proxy.
//
//	AddPod ──> LocalPod.HostPorts ─┬─> frontends on addresses of the vswitch ──> dnat44, dnat66/hostPort/<namespace>/<pod>
//	                               └─> on addresses that only the host has   ──> host-redirect/hostPort/<namespace>/<pod>
//
// A pod gets no port that the node needs, or that a service has.
package hostports

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/service/localnode"
	"github.com/contiv/contiv/internal/plugins/service/podports"
	"github.com/contiv/contiv/internal/plugins/service/proxy"
	"github.com/contiv/contiv/internal/plugins/service/sourcenat"
	"github.com/contiv/contiv/kvscheduler"
	"google.golang.org/protobuf/proto"
)

// Verifier compares the southbound state with the requested values.
type Verifier interface {
	Verify(ctx context.Context, keys ...string) ([]kvscheduler.Difference, error)
}

// HostPorts opens the host ports of local pods.
type HostPorts struct {
	node         *localnode.Node
	ports        *podports.Ports
	reservations *localnode.Reservations
	sources      *sourcenat.SourceNAT
	proxy        *proxy.Proxy // nil without service proxy
	verifier     Verifier
	log          *slog.Logger

	closed map[podmanager.PodID]string // errors of host ports that are not open
}

// New returns the part for a node. The proxy may be nil.
func New(node *localnode.Node, ports *podports.Ports, reservations *localnode.Reservations, sources *sourcenat.SourceNAT, services *proxy.Proxy, verifier Verifier, log *slog.Logger) *HostPorts {
	return &HostPorts{node: node, ports: ports, reservations: reservations, sources: sources, proxy: services, verifier: verifier, log: log, closed: map[podmanager.PodID]string{}}
}

// HandlesEvent reports whether an event affects host ports.
func (h *HostPorts) HandlesEvent(event controller.Event) bool {
	if h == nil {
		return false
	}
	switch e := event.(type) {
	case *podmanager.AddPod, *podmanager.DeletePod, *podmanager.CheckPod:
		return true
	case *nodesync.NodeUpdate:
		return e.NodeName == h.node.Name
	}
	return false
}

// Update opens, closes or checks the ports of a pod, and describes the change.
func (h *HostPorts) Update(ctx context.Context, event controller.Event, txn controller.UpdateOperations) (string, error) {
	switch e := event.(type) {
	case *nodesync.NodeUpdate:
		h.Refresh(ctx, txn)
	case *podmanager.AddPod:
		if pod := h.ports.LocalPod(e.Pod, e.ContainerID); pod != nil {
			if err := h.proxy.UpdatePodPorts(podmanager.PodID{}, txn); err != nil {
				return "", err
			}
			return h.open(ctx, pod, txn)
		}
	case *podmanager.DeletePod:
		if pod := h.ports.LocalPod(e.Pod, e.ContainerID); pod != nil {
			return h.close(pod, txn), h.proxy.UpdatePodPorts(pod.ID, txn)
		}
	case *podmanager.CheckPod:
		if pod := h.ports.LocalPod(e.Pod, e.ContainerID); pod != nil {
			return "", h.check(ctx, pod)
		}
	}
	return "", nil
}

// Revert releases the host ports of a pod that was not added, for services. The controller restores the
// values.
func (h *HostPorts) Revert(event controller.Event) error {
	add, ok := event.(*podmanager.AddPod)
	if !ok || h == nil || h.ports.LocalPod(add.Pod, add.ContainerID) == nil {
		return nil
	}
	return h.proxy.UpdatePodPorts(add.Pod, discarded{})
}

// discarded is a transaction that is never committed.
type discarded struct{}

func (discarded) Put(string, proto.Message) {}

func (discarded) Get(string) proto.Message { return nil }

func (discarded) Delete(string) {}

// open returns an error unless all ports of the pod can be opened.
func (h *HostPorts) open(ctx context.Context, pod *podmanager.LocalPod, txn controller.UpdateOperations) (string, error) {
	open, err := h.openPorts(ctx, pod, true)
	if err := errors.Join(h.inUse(pod), err); err != nil {
		return "", err
	}
	for key, value := range h.shared() {
		txn.Put(key, value)
	}
	for key, value := range h.render(pod, open) {
		if value != nil {
			txn.Put(key, value)
		}
	}
	return fmt.Sprintf("open host ports %s of pod %v", listPorts(pod.HostPorts), pod.ID), nil
}

// close removes the shared values with the last pod.
func (h *HostPorts) close(pod *podmanager.LocalPod, txn controller.UpdateOperations) string {
	delete(h.closed, pod.ID)
	for key := range h.render(pod, OpenPorts{}) {
		txn.Delete(key)
	}
	if len(h.ports.Local()) == 1 && !h.proxy.Translates() {
		for key := range h.shared() {
			if key != globalKey || !h.sources.Active() {
				txn.Delete(key)
			}
		}
	}
	return fmt.Sprintf("close host ports %s of pod %v", listPorts(pod.HostPorts), pod.ID)
}

func (h *HostPorts) check(ctx context.Context, pod *podmanager.LocalPod) error {
	open, _ := h.Open(pod) // ports that can no longer be opened are only logged
	var keys []string
	for key, value := range h.render(pod, open) {
		if value != nil {
			keys = append(keys, key)
		}
	}
	differences, err := h.verifier.Verify(ctx, keys...)
	if err != nil {
		return fmt.Errorf("read back the host ports of pod %v: %w", pod.ID, err)
	}
	var errs []error
	for _, d := range differences {
		errs = append(errs, fmt.Errorf("host ports of pod %v are not as configured: %s (%v)", pod.ID, d.Key, d.State))
	}
	return errors.Join(errs...)
}

// Resync opens the ports of all pods.
func (h *HostPorts) Resync(ctx context.Context, txn controller.ResyncOperations) {
	if h == nil {
		return
	}
	clear(h.closed)
	pods := h.ports.Local()
	if len(pods) == 0 {
		return
	}
	for key, value := range h.shared() {
		if txn.Get(key) == nil {
			txn.Put(key, value)
		}
	}
	h.put(ctx, pods, txn, nil)
}

// Refresh opens and closes ports after addresses of the node, or of services, changed.
func (h *HostPorts) Refresh(ctx context.Context, txn controller.UpdateOperations) {
	if h != nil {
		h.put(ctx, h.ports.Local(), txn, txn.Delete)
	}
}

func (h *HostPorts) put(ctx context.Context, pods []*podmanager.LocalPod, txn controller.ResyncOperations, remove func(key string)) {
	for _, pod := range pods {
		open, err := h.Open(pod)
		delete(h.closed, pod.ID)
		if err != nil {
			controller.Logger(ctx, h.log).Warn("Not all host ports of a pod are open", "pod", pod.ID, "error", err)
			h.closed[pod.ID] = err.Error()
		}
		for key, value := range h.render(pod, open) {
			switch {
			case value != nil:
				txn.Put(key, value)
			case remove != nil:
				remove(key)
			}
		}
	}
}

func listPorts(ports []podmanager.HostPort) string {
	var texts []string
	for _, p := range ports {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, ", ")
}

// Problems returns the errors of pods whose ports are not all open.
func (h *HostPorts) Problems() []string {
	if h == nil {
		return nil
	}
	return slices.Sorted(maps.Values(h.closed))
}
