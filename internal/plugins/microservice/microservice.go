package microservice

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/podmanager"
)

// Label is the pod label, or annotation, that names a pod's microservice.
const Label = "contivpp.io/microservice-label"

// Pods is implemented by podmanager.
type Pods interface {
	LocalPods() podmanager.LocalPods
	LocalPod(podmanager.PodID) (*podmanager.LocalPod, bool)
	PodOf(*podmanager.LocalPod) (*podmanager.Pod, bool)
}

// Place is where a microservice runs.
type Place struct {
	NetNS string
	// ID distinguishes successive network namespaces at one path.
	ID string
}

// Set sets the microservices of this node, by label. It must not block.
type Set func(running map[string]Place) error

// Plugin is the event handler. Events reach it after podmanager.
type Plugin struct {
	pods Pods
	set  Set
	log  *slog.Logger

	chosen map[string]podmanager.PodID
	before map[string]podmanager.PodID
}

// New returns the plugin.
func New(pods Pods, set Set, log *slog.Logger) *Plugin {
	return &Plugin{pods: pods, set: set, log: log}
}

func (p *Plugin) String() string { return "microservice" }

// HandlesEvent accepts resyncs, and additions, deletions and changes of local pods.
func (p *Plugin) HandlesEvent(event controller.Event) bool {
	switch event := event.(type) {
	case *podmanager.AddPod, *podmanager.DeletePod:
		return true
	case *controller.KubeStateChange:
		return event.Resource == "pod"
	}
	return event.Method() != controller.Update
}

// Resync passes on all microservices.
func (p *Plugin) Resync(ctx context.Context, _ controller.Event, _ controller.KubeState, _ int, _ controller.ResyncOperations) error {
	_, err := p.publish(ctx, p.choose(ctx, nil))
	return err
}

func (p *Plugin) Update(ctx context.Context, event controller.Event, _ controller.UpdateOperations) (change string, err error) {
	p.before = p.chosen
	switch event := event.(type) {
	case *podmanager.DeletePod: // podmanager forgets it only later
		return p.publish(ctx, p.choose(ctx, func(l *podmanager.LocalPod) bool { return l.ID == event.Pod && l.ContainerID == event.ContainerID }))
	case *controller.KubeStateChange:
		if !p.isLocal(event.PrevValue) && !p.isLocal(event.NewValue) {
			return "", nil
		}
	}
	return p.publish(ctx, p.choose(ctx, nil))
}

// Revert restores the state before the last Update.
func (p *Plugin) Revert(ctx context.Context, _ controller.Event) error {
	_, err := p.publish(ctx, p.before)
	return err
}

func (p *Plugin) isLocal(value any) bool {
	v, ok := value.(*pod.Pod)
	if !ok || v == nil {
		return false
	}
	_, local := p.pods.LocalPod(podmanager.IDOf(v))
	return local
}

// choose selects the pod of each label. If several pods have one label, the earlier choice stays
// and the others wait.
func (p *Plugin) choose(ctx context.Context, leaves func(*podmanager.LocalPod) bool) map[string]podmanager.PodID {
	labels := map[podmanager.PodID]string{}
	for id, local := range p.pods.LocalPods() {
		known, ok := p.pods.PodOf(local)
		if !ok || leaves != nil && leaves(local) {
			continue
		}
		if label := cmp.Or(known.Labels[Label], known.Annotations[Label]); label != "" {
			labels[id] = label
		}
	}
	chosen := map[string]podmanager.PodID{}
	for _, id := range slices.SortedFunc(maps.Keys(labels), func(a, b podmanager.PodID) int { return strings.Compare(a.String(), b.String()) }) {
		label := labels[id]
		other, taken := chosen[label]
		if taken {
			controller.Logger(ctx, p.log).Warn("Several pods of this node are the same microservice: one gets its configuration",
				"microservice", label, "pod", other, "other", id)
		}
		if !taken || p.chosen[label] == id {
			chosen[label] = id
		}
	}
	return chosen
}

func (p *Plugin) publish(ctx context.Context, chosen map[string]podmanager.PodID) (change string, err error) {
	running := make(map[string]Place, len(chosen))
	for label, id := range chosen {
		if l, ok := p.pods.LocalPod(id); ok {
			running[label] = Place{NetNS: l.NetNS, ID: l.NetNSID}
		}
	}
	if !maps.Equal(chosen, p.chosen) {
		labels := slices.Sorted(maps.Keys(chosen))
		controller.Logger(ctx, p.log).Info("Microservices of this node", "labels", labels)
		change = "microservices: " + cmp.Or(strings.Join(labels, ", "), "none")
	}
	p.chosen = chosen
	return change, p.set(running)
}
