package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// startAPIServer serves the part of the API server's protocol that KSR uses: lists of a constant
// state in the binary encoding, and watches without events. It returns a kubeconfig file and a
// function that cuts the server off.
func startAPIServer(t testing.TB, lists map[string]runtime.Object) (kubeconfig string, cutOff func()) {
	t.Helper()
	pages := make(map[string][][]byte)
	for path, list := range lists {
		pages[path] = encodePages(t, list)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		number, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		switch {
		case number >= len(pages[r.URL.Path]):
			http.NotFound(w, r)
		case r.URL.Query().Get("watch") != "":
			w.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
			_, _ = w.Write(pages[r.URL.Path][number]) // fails if the client closed the connection
		}
	}))
	cutOff = func() {
		server.CloseClientConnections()
		server.Close()
	}
	t.Cleanup(cutOff)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: k, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: k}}]\n", server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig, cutOff
}

// encodePages splits a list into pages of 500.
func encodePages(t testing.TB, list runtime.Object) (pages [][]byte) {
	t.Helper()
	kinds, _, err := scheme.Scheme.ObjectKinds(list)
	if err != nil {
		t.Fatal(err)
	}
	list.GetObjectKind().SetGroupVersionKind(kinds[0])
	items, err := meta.ExtractList(list)
	if err != nil {
		t.Fatal(err)
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		t.Fatal(err)
	}
	for rest := items; len(pages) == 0 || len(rest) > 0; {
		n := min(500, len(rest))
		err := meta.SetList(list, rest[:n])
		if rest = rest[n:]; len(rest) > 0 {
			accessor.SetContinue(strconv.Itoa(len(pages) + 1))
		} else {
			accessor.SetContinue("")
		}
		if err != nil {
			t.Fatal(err)
		}
		page, err := runtime.Encode(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), list)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, page)
	}
	return pages
}

// size of a cluster. Policies and services are per namespace.
type size struct {
	namespaces, nodes, pods, services, policies int
}

// lists returns a cluster of the size, with pods as large as real ones.
func (n size) lists() map[string]runtime.Object {
	version := metav1.ListMeta{ResourceVersion: "1"}
	namespaces, nodes := &corev1.NamespaceList{ListMeta: version}, &corev1.NodeList{ListMeta: version}
	pods, services := &corev1.PodList{ListMeta: version}, &corev1.ServiceList{ListMeta: version}
	policies, slices := &networkingv1.NetworkPolicyList{ListMeta: version}, &discoveryv1.EndpointSliceList{ListMeta: version}
	for i := range n.namespaces {
		namespaces.Items = append(namespaces.Items, corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("ns-%d", i)}})
	}
	for i := range n.nodes {
		nodes.Items = append(nodes.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)}, Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("192.168.%d.%d", i/250, i%250+1)}},
		}})
	}
	for i := range n.pods {
		pods.Items = append(pods.Items, n.pod(i))
	}
	for i := range n.services {
		head := n.meta(fmt.Sprintf("service-%d", i), i)
		services.Items = append(services.Items, corev1.Service{ObjectMeta: head, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: fmt.Sprintf("10.96.%d.%d", i/250, i%250+1), Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
			Selector: map[string]string{"app": fmt.Sprintf("app-%d", i)},
		}})
		slice := discoveryv1.EndpointSlice{ObjectMeta: head, AddressType: discoveryv1.AddressTypeIPv4}
		slice.Name += "-x7k2p"
		slice.Labels = map[string]string{discoveryv1.LabelServiceName: head.Name}
		for e := range 20 {
			node := nodeName((i + e) % max(1, n.nodes))
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{address(i*20 + e)}, NodeName: &node,
				TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: head.Namespace, Name: fmt.Sprintf("app-%d-%d", i, e), UID: head.UID},
			})
		}
		slices.Items = append(slices.Items, slice)
	}
	for i := range n.policies {
		policies.Items = append(policies.Items, networkingv1.NetworkPolicy{ObjectMeta: n.meta(fmt.Sprintf("policy-%d", i), i), Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprintf("app-%d", i)}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		}})
	}
	return map[string]runtime.Object{
		"/api/v1/namespaces": namespaces, "/api/v1/nodes": nodes, "/api/v1/pods": pods, "/api/v1/services": services,
		"/apis/networking.k8s.io/v1/networkpolicies": policies, "/apis/discovery.k8s.io/v1/endpointslices": slices,
	}
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

func address(i int) string { return fmt.Sprintf("10.%d.%d.%d", 1+i>>16, i>>8&255, i&255) }

func (n size) meta(name string, i int) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: fmt.Sprintf("ns-%d", i%max(1, n.namespaces)), UID: "2f1d3c3e-7d5b-4a57-9d8e-0123456789ab", ResourceVersion: "1",
		// Managed fields are often half of a real object.
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: &metav1.FieldsV1{Raw: make([]byte, 1500)}}},
	}
}

func (n size) pod(i int) corev1.Pod {
	p := corev1.Pod{ObjectMeta: n.meta(fmt.Sprintf("app-%d-7d5b8c9f4-%05d", i/30, i), i)}
	p.Labels = map[string]string{"app": fmt.Sprintf("app-%d", i/30), "pod-template-hash": "7d5b8c9f4", "tier": "backend"}
	p.Spec.NodeName = nodeName(i % max(1, n.nodes))
	for c := range 2 {
		container := corev1.Container{Name: fmt.Sprintf("container-%d", c), Image: "registry.example/team/application:v1.2.3", Ports: []corev1.ContainerPort{{Name: fmt.Sprintf("http-%d", c), ContainerPort: 8080}}}
		for e := range 10 {
			container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", e), Value: "some value that is not reflected"})
		}
		p.Spec.Containers = append(p.Spec.Containers, container)
	}
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, HostIP: "192.168.0.1", PodIP: address(i), PodIPs: []corev1.PodIP{{IP: address(i)}}}
	return p
}
