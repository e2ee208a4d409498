// Package kubeapitest makes a kubeapi.Client of client-go's clientset, whose fake holds objects in
// memory.
package kubeapitest

import (
	"github.com/contiv/contiv/internal/kubernetes/kubeapi"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/client-go/kubernetes"
)

// Client returns a client of the objects that c accesses.
func Client(c kubernetes.Interface) *kubeapi.Client {
	return &kubeapi.Client{
		Namespaces: c.CoreV1().Namespaces(),
		Nodes:      c.CoreV1().Nodes(),
		Requests:   c.CertificatesV1().CertificateSigningRequests(),
		Pods: func(namespace string) kubeapi.Objects[*corev1.Pod, *corev1.PodList] {
			return c.CoreV1().Pods(namespace)
		},
		Services: func(namespace string) kubeapi.Objects[*corev1.Service, *corev1.ServiceList] {
			return c.CoreV1().Services(namespace)
		},
		Secrets: func(namespace string) kubeapi.Objects[*corev1.Secret, *corev1.SecretList] {
			return c.CoreV1().Secrets(namespace)
		},
		Events: func(namespace string) kubeapi.Objects[*corev1.Event, *corev1.EventList] {
			return c.CoreV1().Events(namespace)
		},
		EndpointSlices: func(namespace string) kubeapi.Objects[*discoveryv1.EndpointSlice, *discoveryv1.EndpointSliceList] {
			return c.DiscoveryV1().EndpointSlices(namespace)
		},
		NetworkPolicies: func(namespace string) kubeapi.Objects[*networkingv1.NetworkPolicy, *networkingv1.NetworkPolicyList] {
			return c.NetworkingV1().NetworkPolicies(namespace)
		},
	}
}
