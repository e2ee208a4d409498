package ksr

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is a Kubernetes object of a reflected kind: *corev1.Namespace, Node, Pod or Service,
// *networkingv1.NetworkPolicy or ServiceCIDR, *clusternetworkpolicy.ClusterNetworkPolicy or
// *discoveryv1.EndpointSlice. It must not be changed after it was reported.
type Object interface {
	metav1.Object
	runtime.Object
}

// Ref identifies an object. Namespace is empty for cluster-scoped kinds.
type Ref struct {
	Kind      Kind
	Namespace string
	Name      string
}

func (r Ref) String() string {
	if r.Namespace == "" {
		return string(r.Kind) + " " + r.Name
	}
	return string(r.Kind) + " " + r.Namespace + "/" + r.Name
}

// RefOf returns the identity of an object. ok is false for kinds that are not reflected.
func RefOf(o Object) (ref Ref, ok bool) {
	k := kindOf(o)
	if k == nil {
		return Ref{}, false
	}
	ref = Ref{Kind: k.kind, Namespace: o.GetNamespace(), Name: o.GetName()}
	if k.clusterScoped {
		ref.Namespace = ""
	}
	return ref, true
}

// Changes is one report of a source.
type Changes struct {
	// Set holds new or possibly changed objects.
	Set []Object
	// Deleted holds objects that no longer exist.
	Deleted []Ref
	// Complete reports whether all reports so far contain all existing objects. Otherwise nothing
	// is swept from the store, because unreported objects may still exist.
	Complete bool
}

// Source reports Kubernetes objects.
type Source interface {
	// Run reports all objects, and then changes, until ctx ends, and then returns nil. An error
	// means that the source cannot continue. Only one goroutine at a time may call report, which
	// does not wait for the store.
	Run(ctx context.Context, report func(Changes)) error
}
