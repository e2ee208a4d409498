package ksr

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is a Kubernetes object of a reflected kind: *corev1.Namespace, Node, Pod
// or Service, *networkingv1.NetworkPolicy, *clusternetworkpolicy.ClusterNetworkPolicy or
// *discoveryv1.EndpointSlice. It must not be changed after it was reported.
type Object interface {
	metav1.Object
	runtime.Object
}

// Ref identifies an object. Namespace is empty for kinds that have none.
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

// Changes is what a source reports at a time.
type Changes struct {
	// Set are objects that are new, or may have changed.
	Set []Object
	// Deleted are objects that are no more.
	Deleted []Ref
	// Complete says that the reports so far, this one included, contain all
	// objects that there are. While a source is incomplete, nothing is swept
	// from the store: what the source does not see may exist all the same.
	Complete bool
}

// Source delivers Kubernetes objects.
type Source interface {
	// Run reports all objects, and then changes, until ctx ends; it then
	// returns nil. An error means that the source cannot go on. report may be
	// called from one goroutine at a time; it does not wait for the store.
	Run(ctx context.Context, report func(Changes)) error
}
