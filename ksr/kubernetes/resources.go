package kubernetes

import (
	"context"

	cnp "github.com/contiv/contiv/api/kubernetes/clusternetworkpolicy"
	"github.com/contiv/contiv/ksr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

type resource struct {
	kind    ksr.Kind
	name    string
	example runtime.Object
	list    func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch   func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// resources of all namespaces. The permissions are in deploy/contiv-ksr-rbac.yaml.
func resources(c kubernetes.Interface, custom dynamic.Interface) []resource {
	return []resource{
		describe(ksr.Namespace, "namespaces", &corev1.Namespace{}, c.CoreV1().Namespaces()),
		describe(ksr.Node, "nodes", &corev1.Node{}, c.CoreV1().Nodes()),
		describe(ksr.Policy, "networkpolicies", &networkingv1.NetworkPolicy{}, c.NetworkingV1().NetworkPolicies("")),
		describeCustom(ksr.ClusterPolicy, &cnp.ClusterNetworkPolicy{}, custom.Resource(cnp.GroupVersionResource), cnp.Resource),
		describe(ksr.Pod, "pods", &corev1.Pod{}, c.CoreV1().Pods("")),
		describe(ksr.Service, "services", &corev1.Service{}, c.CoreV1().Services("")),
		describe(ksr.EndpointSlice, "endpointslices", &discoveryv1.EndpointSlice{}, c.DiscoveryV1().EndpointSlices("")),
	}
}

type client[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func describe[L runtime.Object](kind ksr.Kind, name string, example runtime.Object, c client[L]) resource {
	return resource{
		kind: kind, name: name, example: example,
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := c.List(ctx, o)
			if err != nil {
				return nil, err // not a nil pointer in an interface
			}
			return list, nil
		},
		watch: c.Watch,
	}
}

func (r resource) listWatch(note func(error)) *cache.ListWatch {
	return &cache.ListWatch{
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
	}
}
