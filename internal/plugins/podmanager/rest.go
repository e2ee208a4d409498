package podmanager

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/lib/rest"
)

// URL returns the pods of a name on any node: ?name=NAME or ?name=NAMESPACE/NAME.
const URL = "/contiv/v1/kubernetes-pods"

// Report is the response at URL.
type Report struct {
	// Sorted by namespace and name.
	Pods []PodReport `json:"pods"`
}

// PodReport is a pod in Kubernetes.
type PodReport struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Node is empty until the pod is scheduled.
	Node string `json:"node,omitempty"`
	// IPs are empty until the pod has a network.
	IPs         []string `json:"ips"`
	HostNetwork bool     `json:"hostNetwork,omitempty"`
}

// Handler serves URL.
func (m *PodManager) Handler() http.Handler {
	return rest.Get(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Query().Get("name")
		switch {
		case name == "":
			rest.Error(w, http.StatusBadRequest, errors.New("missing argument: use ?name=NAME or ?name=NAMESPACE/NAME"))
		case !m.synced():
			rest.Error(w, http.StatusServiceUnavailable, errors.New("pods are unknown before the startup resync: try again later"))
		default:
			rest.JSON(w, m.named(name))
		}
	})
}

func (m *PodManager) synced() bool {
	select {
	case <-m.ready:
		return true
	default:
		return false
	}
}

func (m *PodManager) named(name string) Report {
	report := Report{Pods: []PodReport{}}
	for id, pod := range m.Pods() {
		if pod.Finished || id.Name != name && id.String() != name {
			continue
		}
		p := PodReport{Namespace: id.Namespace, Name: id.Name, Node: pod.NodeName, IPs: []string{}, HostNetwork: pod.HostNetwork}
		for _, ip := range pod.IPs {
			p.IPs = append(p.IPs, ip.String())
		}
		report.Pods = append(report.Pods, p)
	}
	slices.SortFunc(report.Pods, func(a, b PodReport) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
	return report
}
