package microservice_test

import (
	"context"
	"maps"
	"testing"

	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/microservice"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/podmanager"
)

// node holds podmanager's pods and the plugin's reports.
type node struct {
	t       testing.TB
	plugin  *microservice.Plugin
	local   podmanager.LocalPods
	known   podmanager.Pods
	running map[string]microservice.Place
}

func (n *node) LocalPods() podmanager.LocalPods { return maps.Clone(n.local) }
func (n *node) LocalPod(id podmanager.PodID) (*podmanager.LocalPod, bool) {
	p, ok := n.local[id]
	return p, ok
}
func (n *node) PodOf(sandbox *podmanager.LocalPod) (*podmanager.Pod, bool) {
	p, ok := n.known[sandbox.ID]
	return p, ok
}

func newNode(t testing.TB) *node {
	n := &node{t: t, local: podmanager.LocalPods{}, known: podmanager.Pods{}}
	n.plugin = microservice.New(n, func(running map[string]microservice.Place) error {
		n.running = running
		return nil
	}, plugintest.Logger())
	return n
}

func id(name string) podmanager.PodID { return podmanager.PodID{Name: name, Namespace: "default"} }

func labels(label string) map[string]string { return map[string]string{microservice.Label: label} }

func (n *node) update(event controller.Event) {
	n.t.Helper()
	if !n.plugin.HandlesEvent(event) {
		n.t.Fatalf("%v is not handled", event)
	}
	if _, err := n.plugin.Update(context.Background(), event, nil); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) wire(name, container string) *podmanager.AddPod {
	n.t.Helper()
	n.local[id(name)] = &podmanager.LocalPod{ID: id(name), ContainerID: container, NetNS: "/netns/" + name, NetNSID: "of " + container}
	add := &podmanager.AddPod{Pod: id(name), ContainerID: container}
	n.update(add)
	return add
}

// unwire handles a DEL, in which podmanager comes after the plugin.
func (n *node) unwire(name, container string) {
	n.t.Helper()
	n.update(&podmanager.DeletePod{Pod: id(name), ContainerID: container})
	if l := n.local[id(name)]; l != nil && l.ContainerID == container {
		delete(n.local, id(name))
	}
}

func (n *node) reflect(name string, labels, annotations map[string]string) {
	n.t.Helper()
	p := &pod.Pod{Name: name, Namespace: "default", Labels: labels, Annotations: annotations}
	n.known[id(name)] = podmanager.FromKube(p)
	n.update(&controller.KubeStateChange{Resource: "pod", NewValue: p})
}

func (n *node) run(want map[string]string) {
	n.t.Helper()
	got := map[string]string{}
	for label, place := range n.running {
		got[label] = place.ID
	}
	if !maps.Equal(got, want) {
		n.t.Errorf("microservices: got %v, want %v", got, want)
	}
}

func TestPodsWithTheLabelAreMicroservices(t *testing.T) {
	n := newNode(t)
	n.wire("web", "c1")
	n.run(nil)
	n.reflect("web", labels("cnf"), nil)
	n.run(map[string]string{"cnf": "of c1"})
	if got := n.running["cnf"].NetNS; got != "/netns/web" {
		t.Errorf("network namespace: %q", got)
	}
	n.reflect("other", nil, map[string]string{microservice.Label: "annotated"})
	n.reflect("plain", nil, nil)
	n.wire("other", "c2")
	n.wire("plain", "c3")
	n.run(map[string]string{"cnf": "of c1", "annotated": "of c2"})

	n.unwire("web", "c0")
	n.run(map[string]string{"cnf": "of c1", "annotated": "of c2"})
	n.unwire("web", "c1")
	n.run(map[string]string{"annotated": "of c2"})
	n.wire("web", "c4")
	n.run(map[string]string{"cnf": "of c4", "annotated": "of c2"})
	n.reflect("web", labels("renamed"), nil)
	n.run(map[string]string{"renamed": "of c4", "annotated": "of c2"})
}

func TestTheFirstOfSeveralPodsStays(t *testing.T) {
	n := newNode(t)
	n.reflect("b", labels("cnf"), nil)
	n.reflect("a", labels("cnf"), nil)
	n.wire("b", "c1")
	n.wire("a", "c2")
	n.run(map[string]string{"cnf": "of c1"})
	n.unwire("b", "c1")
	n.run(map[string]string{"cnf": "of c2"})
}

func TestAFailedAddIsTakenBack(t *testing.T) {
	n := newNode(t)
	n.reflect("web", labels("cnf"), nil)
	add := n.wire("web", "c1")
	n.run(map[string]string{"cnf": "of c1"})
	if err := n.plugin.Revert(context.Background(), add); err != nil {
		t.Fatal(err)
	}
	n.run(nil)
}

func TestAResyncTellsOfAll(t *testing.T) {
	n := newNode(t)
	n.known[id("web")] = &podmanager.Pod{ID: id("web"), Labels: labels("cnf")}
	n.local[id("web")] = &podmanager.LocalPod{ID: id("web"), ContainerID: "c1", NetNSID: "of c1"}
	event := &controller.DBResync{}
	if !n.plugin.HandlesEvent(event) {
		t.Fatal("resyncs are not handled")
	}
	if err := n.plugin.Resync(context.Background(), event, nil, 1, nil); err != nil {
		t.Fatal(err)
	}
	n.run(map[string]string{"cnf": "of c1"})
}
