package ksr

import (
	"strings"

	"github.com/contiv/contiv/api/contiv/endpointslice"
	"github.com/contiv/contiv/api/contiv/namespace"
	"github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/api/contiv/policy"
	"github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/api/contiv/servicecidr"
	cnp "github.com/contiv/contiv/api/kubernetes/clusternetworkpolicy"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// Kind is the keyword of a reflected kind in keys.
type Kind string

// The reflected kinds.
const (
	Namespace     Kind = kubestate.Namespace
	Node          Kind = kubestate.Node
	Pod           Kind = kubestate.Pod
	Policy        Kind = kubestate.Policy
	Service       Kind = kubestate.Service
	EndpointSlice Kind = kubestate.EndpointSlice
	ClusterPolicy Kind = kubestate.ClusterPolicy
	ServiceCIDR   Kind = kubestate.ServiceCIDR
)

type kind struct {
	kind             Kind
	apiVersion, name string
	clusterScoped    bool
	// key of an object, without models.KSRPrefix.
	key func(name, namespace string) string
	// message returns an empty message. convert returns the message of an object, or nil if it is
	// not reflected.
	message func() proto.Message
	convert func(Object) proto.Message
	// object returns an empty object. is reports whether an object is of the kind. trim returns an
	// object with only the reflected fields.
	object func() Object
	is     func(Object) bool
	trim   func(Object) Object
}

// kinds in the order of writing: a pod's namespace, node and policies precede it. Deletions are in
// reverse order.
var kinds = []*kind{
	describe[corev1.Namespace]("v1", "Namespace", kind{
		kind: Namespace, clusterScoped: true, key: clusterKey(kubestate.NamespaceKey),
	}, new(namespace.Namespace), convertNamespace, trimNamespace),
	describe[corev1.Node]("v1", "Node", kind{
		kind: Node, clusterScoped: true, key: clusterKey(kubestate.NodeKey),
	}, new(node.Node), convertNode, trimNode),
	describe[networkingv1.NetworkPolicy]("networking.k8s.io/v1", "NetworkPolicy", kind{
		kind: Policy, key: kubestate.PolicyKey,
	}, new(policy.Policy), convertPolicy, trimPolicy),
	describe[cnp.ClusterNetworkPolicy](cnp.Group+"/"+cnp.Version, cnp.Kind, kind{
		kind: ClusterPolicy, clusterScoped: true, key: clusterKey(kubestate.ClusterPolicyKey),
	}, new(policy.ClusterPolicy), convertClusterPolicy, trimClusterPolicy),
	describe[corev1.Pod]("v1", "Pod", kind{
		kind: Pod, key: kubestate.PodKey,
	}, new(pod.Pod), convertPod, trimPod),
	describe[networkingv1.ServiceCIDR]("networking.k8s.io/v1", "ServiceCIDR", kind{
		kind: ServiceCIDR, clusterScoped: true, key: clusterKey(kubestate.ServiceCIDRKey),
	}, new(servicecidr.ServiceCIDR), convertServiceCIDR, trimServiceCIDR),
	describe[corev1.Service]("v1", "Service", kind{
		kind: Service, key: kubestate.ServiceKey,
	}, new(service.Service), convertService, trimService),
	describe[discoveryv1.EndpointSlice]("discovery.k8s.io/v1", "EndpointSlice", kind{
		kind: EndpointSlice, key: kubestate.EndpointSliceKey,
	}, new(endpointslice.EndpointSlice), convertEndpointSlice, trimEndpointSlice),
}

type objectOf[T any] interface {
	*T
	Object
}

func describe[T any, O objectOf[T]](apiVersion, name string, k kind, message proto.Message, convert func(O) proto.Message, trim func(O) O) *kind {
	k.apiVersion, k.name = apiVersion, name
	k.message = func() proto.Message { return message.ProtoReflect().New().Interface() }
	k.convert = func(o Object) proto.Message { return convert(o.(O)) }
	k.object = func() Object { return O(new(T)) }
	k.is = func(o Object) bool { _, ok := o.(O); return ok }
	k.trim = func(o Object) Object { return trim(o.(O)) }
	return &k
}

func clusterKey(key func(name string) string) func(name, namespace string) string {
	return func(name, _ string) string { return key(name) }
}

func kindOf(o Object) *kind {
	for _, k := range kinds {
		if k.is(o) {
			return k
		}
	}
	return nil
}

func (k Kind) lookup() *kind {
	for _, known := range kinds {
		if known.kind == k {
			return known
		}
	}
	return nil
}

// NewObject returns an empty object of the kind in manifests. ok is false if it is not reflected.
func NewObject(apiVersion, kind string) (o Object, ok bool) {
	for _, k := range kinds {
		if k.apiVersion == apiVersion && k.name == kind {
			return k.object(), true
		}
	}
	return nil, false
}

// Trim returns a shallow copy without most unreflected fields, for sources that keep objects. The
// copy is converted to the same value. Objects of other kinds are returned unchanged.
func Trim(o Object) Object {
	if k := kindOf(o); k != nil {
		return k.trim(o)
	}
	return o
}

// ClusterScoped reports whether the kind has no namespace.
func (k Kind) ClusterScoped() bool {
	known := k.lookup()
	return known != nil && known.clusterScoped
}

// KeyPrefix returns the prefix of the kind's keys in the store.
func (k Kind) KeyPrefix() string { return models.KSRPrefix + "k8s/" + string(k) + "/" }

// Key returns the object's key in the store, or "" for a kind that is not reflected.
func (r Ref) Key() string {
	k := r.Kind.lookup()
	if k == nil {
		return ""
	}
	return models.KSRPrefix + k.key(r.Name, r.Namespace)
}

func nodeOfKey(key string) string { return strings.TrimPrefix(key, Node.KeyPrefix()) }
