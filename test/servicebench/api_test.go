package servicebench

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// api implements the list and watch requests of kube-proxy.
type api struct {
	mu       sync.Mutex
	version  int
	objects  map[string]map[string]object // by path, then by name
	watchers map[string][]chan event
}

type object interface {
	metav1.Object
}

type event struct {
	Type   string `json:"type"`
	Object object `json:"object"`
}

const (
	servicesPath = "/api/v1/services"
	slicesPath   = "/apis/discovery.k8s.io/v1/endpointslices"
	nodesPath    = "/api/v1/nodes"
	cidrsPath    = "/apis/networking.k8s.io/v1/servicecidrs"
)

// kinds maps list kinds to API versions.
var kinds = map[string][2]string{
	servicesPath: {"ServiceList", "v1"}, slicesPath: {"EndpointSliceList", "discovery.k8s.io/v1"},
	nodesPath: {"NodeList", "v1"}, cidrsPath: {"ServiceCIDRList", "networking.k8s.io/v1"},
}

func newAPI() *api {
	a := &api{objects: map[string]map[string]object{}, watchers: map[string][]chan event{}}
	for path := range kinds {
		a.objects[path] = map[string]object{}
	}
	a.put(&corev1.Node{
		TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "node1"},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeIP}}},
	})
	a.put(&networkingv1.ServiceCIDR{
		TypeMeta: metav1.TypeMeta{Kind: "ServiceCIDR", APIVersion: "networking.k8s.io/v1"}, ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
		Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{serviceCIDR}},
	})
	return a
}

func pathOf(o object) string {
	switch o.(type) {
	case *corev1.Service:
		return servicesPath
	case *discoveryv1.EndpointSlice:
		return slicesPath
	case *corev1.Node:
		return nodesPath
	}
	return cidrsPath
}

func (a *api) put(o object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	path := pathOf(o)
	a.version++
	o.SetResourceVersion(strconv.Itoa(a.version))
	o.SetUID("uid-" + "1")
	kind := "ADDED"
	if a.objects[path][o.GetName()] != nil {
		kind = "MODIFIED"
	}
	a.objects[path][o.GetName()] = o
	for _, w := range a.watchers[path] {
		w <- event{kind, o}
	}
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	path, query := r.URL.Path, r.URL.Query()
	if path == nodesPath+"/node1" {
		a.mu.Lock()
		defer a.mu.Unlock()
		_ = json.NewEncoder(w).Encode(a.objects[nodesPath]["node1"])
		return
	}
	kind, known := kinds[path]
	switch {
	case !known || query.Get("sendInitialEvents") != "":
		w.WriteHeader(map[bool]int{true: http.StatusUnprocessableEntity, false: http.StatusNotFound}[known])
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonInvalid, Code: 422})
	case query.Get("watch") == "":
		a.mu.Lock()
		defer a.mu.Unlock()
		items := []object{}
		for _, o := range a.objects[path] {
			items = append(items, o)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": kind[0], "apiVersion": kind[1], "metadata": map[string]string{"resourceVersion": strconv.Itoa(a.version)}, "items": items})
	default:
		a.watch(w, r, path, query.Get("resourceVersion"))
	}
}

func (a *api) watch(w http.ResponseWriter, r *http.Request, path, since string) {
	events := make(chan event, 1<<16)
	from, _ := strconv.Atoi(since)
	a.mu.Lock()
	for _, o := range a.objects[path] {
		if v, _ := strconv.Atoi(o.GetResourceVersion()); v > from {
			events <- event{"ADDED", o}
		}
	}
	a.watchers[path] = append(a.watchers[path], events)
	a.mu.Unlock()
	encoder, flusher := json.NewEncoder(w), w.(http.Flusher)
	flusher.Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case e := <-events:
			if encoder.Encode(e) != nil {
				return
			}
			for len(events) > 0 {
				if encoder.Encode(<-events) != nil {
					return
				}
			}
			flusher.Flush()
		}
	}
}

// kubeService and kubeSlice convert a service of the benchmark to Kubernetes objects.
func kubeService(s testService) *corev1.Service {
	policy, family := corev1.ServiceInternalTrafficPolicyCluster, corev1.IPFamilyPolicySingleStack
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{Kind: "Service", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: s.name, Namespace: "default"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: s.ip, ClusterIPs: []string{s.ip}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, IPFamilyPolicy: &family,
			InternalTrafficPolicy: &policy, SessionAffinity: corev1.ServiceAffinityNone, Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
}

func kubeSlice(s testService) *discoveryv1.EndpointSlice {
	yes, port, tcp, node, unnamed := true, s.port, corev1.ProtocolTCP, "node1", ""
	slice := &discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{Kind: "EndpointSlice", APIVersion: "discovery.k8s.io/v1"},
		ObjectMeta:  metav1.ObjectMeta{Name: s.name + "-1", Namespace: "default", Labels: map[string]string{discoveryv1.LabelServiceName: s.name}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &unnamed, Port: &port, Protocol: &tcp}},
	}
	for _, ip := range s.endpoints {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{ip}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes}})
	}
	return slice
}

// testService is a service of the benchmark with port 80.
type testService struct {
	name, ip  string
	endpoints []string
	port      int32
}

func numbered(n int) testService {
	return testService{fmt.Sprintf("s%05d", n), fmt.Sprintf("10.96.%d.%d", 1+n/250, 1+n%250), endpoints(), serverPort}
}
