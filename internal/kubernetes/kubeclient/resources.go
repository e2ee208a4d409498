package kubeclient

import (
	"context"

	cnp "github.com/contiv/contiv/api/kubernetes/clusternetworkpolicy"
	"github.com/contiv/contiv/internal/kubernetes/ksr"
	"github.com/contiv/contiv/internal/kubernetes/kubeapi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// serviceCIDRs are missing before Kubernetes 1.33.
var serviceCIDRs = networkingv1.SchemeGroupVersion.WithResource("servicecidrs")

type resource struct {
	kind    ksr.Kind
	name    string
	example runtime.Object
	list    func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch   func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// resources of all namespaces. The permissions are in deploy/contiv-ksr-rbac.yaml.
func resources(c *kubeapi.Client, custom dynamic.Interface) []resource {
	return []resource{
		describe(ksr.Namespace, "namespaces", &corev1.Namespace{}, c.Namespaces),
		describe(ksr.Node, "nodes", &corev1.Node{}, c.Nodes),
		describe(ksr.Policy, "networkpolicies", &networkingv1.NetworkPolicy{}, c.NetworkPolicies("")),
		describeCustom(ksr.ClusterPolicy, &cnp.ClusterNetworkPolicy{}, custom.Resource(cnp.GroupVersionResource), cnp.Resource),
		describe(ksr.Pod, "pods", &corev1.Pod{}, c.Pods("")),
		describeCustom(ksr.ServiceCIDR, &networkingv1.ServiceCIDR{}, custom.Resource(serviceCIDRs), serviceCIDRs.Resource),
		describe(ksr.Service, "services", &corev1.Service{}, c.Services("")),
		describe(ksr.EndpointSlice, "endpointslices", &discoveryv1.EndpointSlice{}, c.EndpointSlices("")),
	}
}

func describe[L runtime.Object](kind ksr.Kind, name string, example runtime.Object, c kubeapi.Lister[L]) resource {
	return resource{
		kind: kind, name: name, example: example,
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return kubeapi.List(ctx, c, o)
		},
		watch: c.Watch,
	}
}

func (r resource) listWatch(note func(error)) cache.ListerWatcher {
	return kubeapi.Pages{ListWatch: &cache.ListWatch{
		DisableChunking: true, // listAll reads in pages
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			list, err := r.listAll(ctx)
			note(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := r.watch(ctx, o)
			note(err)
			return w, err
		},
	}}
}
