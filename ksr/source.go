package ksr

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is a Kubernetes object of a reflected kind: *corev1.Namespace, Node, Pod
// or Service, *networkingv1.NetworkPolicy, *clusternetworkpolicy.ClusterNetworkPolicy or
// *discoveryv1.EndpointSlice. It must not be changed after it has been reported.
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

// RefOf returns the identity of an object; ok is false for objects of kinds that
// are not reflected.
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
	// Set has objects that are new, or may have changed.
	Set []Object
	// Deleted has objects that no longer exist.
	Deleted []Ref
	// Complete reports whether the reports so far, including this one, contain all existing objects. While
	// a source is incomplete, nothing is swept from the store, since objects that the source does not see
	// may still exist.
	Complete bool
}

// Source delivers Kubernetes objects.
type Source interface {
	// Run reports all objects, and then changes, until ctx ends; it then returns nil. An error means that
	// the source cannot continue. report must be called by one goroutine at a time; it does not wait for
	// the store.
	Run(ctx context.Context, report func(Changes)) error
}
