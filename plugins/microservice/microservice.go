package microservice

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/plugins/podmanager"
)

// Label is the label of a pod that names the microservice that it is; an annotation of this
// name does the same.
const Label = "contivpp.io/microservice-label"

// Pods are those of podmanager.
type Pods interface {
	LocalPods() podmanager.LocalPods
	LocalPod(podmanager.PodID) (*podmanager.LocalPod, bool)
	PodOf(*podmanager.LocalPod) (*podmanager.Pod, bool)
}

// Place is where a microservice runs.
type Place struct {
	// NetNS is the path of the network namespace.
	NetNS string
	// ID tells network namespaces apart that follow each other at one path.
	ID string
}

// Set takes the microservices of this node, by label. It must not wait.
type Set func(running map[string]Place) error

// Plugin is the event handler. It comes after podmanager.
type Plugin struct {
	pods Pods
	set  Set
	log  *slog.Logger

	// chosen are the pods that stand for the labels.
	chosen map[string]podmanager.PodID
	// before are those before the last event, for Revert.
	before map[string]podmanager.PodID
}

// New returns the plugin.
func New(pods Pods, set Set, log *slog.Logger) *Plugin {
	return &Plugin{pods: pods, set: set, log: log}
}

func (p *Plugin) String() string { return "microservice" }

// HandlesEvent accepts resyncs, the coming and going of local pods, and changes of these.
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
	_, err := p.tell(ctx, p.choose(ctx, nil))
	return err
}

// Update passes on the microservices that were added or removed.
func (p *Plugin) Update(ctx context.Context, event controller.Event, _ controller.UpdateOperations) (change string, err error) {
	p.before = p.chosen
	switch event := event.(type) {
	case *podmanager.DeletePod: // podmanager forgets it only later
		return p.tell(ctx, p.choose(ctx, func(l *podmanager.LocalPod) bool { return l.ID == event.Pod && l.ContainerID == event.ContainerID }))
	case *controller.KubeStateChange:
		if !p.isLocal(event.PrevValue) && !p.isLocal(event.NewValue) {
			return "", nil
		}
	}
	return p.tell(ctx, p.choose(ctx, nil))
}

// Revert takes back what Update told.
func (p *Plugin) Revert(ctx context.Context, _ controller.Event) error {
	_, err := p.tell(ctx, p.before)
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

// choose returns the pod of each label. Of several with one label, the one that has been
// chosen before stays, and the others wait.
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

// tell describes what has changed.
func (p *Plugin) tell(ctx context.Context, chosen map[string]podmanager.PodID) (change string, err error) {
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
