package ksr

import (
	"strings"

	"github.com/contiv/contiv/api/contiv/namespace"
	"github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/dbresources"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
)

// Kind is the keyword of a reflected kind of objects, as it is found in keys.
type Kind string

// The reflected kinds.
const (
	Namespace Kind = dbresources.Namespace
	Node      Kind = dbresources.Node
	Pod       Kind = dbresources.Pod
)

// kind is what the reflector knows of a kind.
type kind struct {
	kind          Kind
	clusterScoped bool
	// message returns an empty message, and convert a filled one.
	message func() proto.Message
	convert func(Object) proto.Message
	// is tells if an object is of the kind.
	is func(Object) bool
}

// kinds are in the order in which they are written: a pod's namespace and node
// before the pod. Deletions go the other way.
var kinds = []*kind{
	describe(Namespace, true, new(namespace.Namespace), convertNamespace),
	describe(Node, true, new(node.Node), convertNode),
	describe(Pod, false, new(pod.Pod), convertPod),
}

func describe[O Object](k Kind, clusterScoped bool, message proto.Message, convert func(O) proto.Message) *kind {
	return &kind{
		kind: k, clusterScoped: clusterScoped,
		message: func() proto.Message { return message.ProtoReflect().New().Interface() },
		convert: func(o Object) proto.Message { return convert(o.(O)) },
		is:      func(o Object) bool { _, ok := o.(O); return ok },
	}
}

func kindOf(o Object) *kind {
	for _, k := range kinds {
		if k.is(o) {
			return k
		}
	}
	return nil
}

// NewObject returns an empty object of the kind, known in manifests by apiVersion and
// kind; ok is false if it is not reflected.
func NewObject(apiVersion, kind string) (o Object, ok bool) {
	if apiVersion != "v1" {
		return nil, false
	}
	switch kind {
	case "Namespace":
		return new(corev1.Namespace), true
	case "Node":
		return new(corev1.Node), true
	case "Pod":
		return new(corev1.Pod), true
	}
	return nil, false
}

// KeyPrefix is common to the keys of the kind in the store.
func (k Kind) KeyPrefix() string { return models.KSRPrefix + "k8s/" + string(k) + "/" }

// Key is the key of the object in the store.
func (r Ref) Key() string {
	switch r.Kind {
	case Namespace:
		return models.KSRPrefix + dbresources.NamespaceKey(r.Name)
	case Node:
		return models.KSRPrefix + dbresources.NodeKey(r.Name)
	default:
		return models.KSRPrefix + dbresources.PodKey(r.Name, r.Namespace)
	}
}

// nodeOfKey returns the name of the node that a key of the kind Node is for.
func nodeOfKey(key string) string { return strings.TrimPrefix(key, Node.KeyPrefix()) }
