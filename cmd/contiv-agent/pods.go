package main

import (
	"log/slog"
	"net/http"
	"path/filepath"

	"github.com/contiv/contiv/api/contiv/cniwire"
	"github.com/contiv/contiv/internal/agent/health"
	"github.com/contiv/contiv/internal/agent/pods"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/microservice"
	"github.com/contiv/contiv/internal/plugins/podmanager"
)

// podList is the list of pods: all pods in Kubernetes, and the pods that this node runs.
type podList struct {
	component
	*podmanager.PodManager
}

func newPods(node, runDir string, local *localStore, events *eventLoop, log *slog.Logger) *podList {
	p := podmanager.New(node, local.store, podmanager.KernelNamespaces, filepath.Join(runDir, cniwire.MissedDelsDir), events.loop, log)
	return &podList{component{
		name:   "pods",
		events: []controller.EventHandler{p},
		rest:   map[string]http.Handler{podmanager.URL: p.Handler()},
	}, p}
}

// podRecords writes the record of a new pod after its addresses are allocated, before its network is
// configured.
func podRecords(pods *podList) component {
	return component{name: "pod records", events: []controller.EventHandler{pods.Recorder()}}
}

// microservices gives the labels of pods to the linux devices that refer to them.
func microservices(pods *podList, southbound *southboundComponent, log *slog.Logger) component {
	return component{name: "microservices", events: []controller.EventHandler{microservice.New(pods.PodManager, southbound.SetMicroservices, log)}}
}

// podNames gives the names of pods to messages about their interfaces.
func podNames(list *podList, podNetwork *podNetwork) pods.Names {
	return pods.NewNames(list.PodManager, podNetwork.IPNet)
}

// podChecks compare the pods in Kubernetes with the pods of this node.
func podChecks(node string, list *podList, addresses *addresses, podNetwork *podNetwork, events *eventLoop) component {
	identities := pods.Identities{Known: list.Pods, Wired: list.LocalPods, PodOf: list.PodOf, Addresses: addresses.GetPodIPs, Refused: list.RefusedSandboxes, Connected: events.connected}
	return component{name: "checks of pods", checks: []health.Check{
		pods.Connected(node, list.Pods, podNetwork.PodsReport, events.connected),
		{Name: "sandboxes", Look: identities.Sandboxes},
		{Name: "addresses", Look: identities.AddressConflicts, Cluster: true},
	}}
}
