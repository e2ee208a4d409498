// Package kubestate lists the resources of the Kubernetes state in etcd. KSR, the CRD controller
// and agents write them; agents read and watch them. Each entry of the table is mirrored, and
// included in DBResync and KubeStateChange events.
//
//	/vnf-agent/contiv-ksr/k8s/pod/web/namespace/default
//	└──── KSRPrefix ─────┘└────── key of the resource ─┘
//	                      └KeyPrefix┘
package kubestate

import (
	"errors"
	"fmt"
	"strings"

	"github.com/contiv/contiv/api/contiv/endpointslice"
	"github.com/contiv/contiv/api/contiv/namespace"
	"github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/api/contiv/nodeconfig"
	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/api/contiv/policy"
	"github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/api/contiv/servicecidr"
	"github.com/contiv/contiv/api/contiv/vppnode"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Keywords of the resources, which are the keys of a controller.KubeState.
const (
	VppNode       = "vppnode"
	NodeConfig    = "nodeconfig"
	Node          = "node"
	Pod           = "pod"
	Namespace     = "namespace"
	Policy        = "policy"
	Service       = "service"
	EndpointSlice = "endpointslice"
	ClusterPolicy = "clusternetworkpolicy"
	ServiceCIDR   = "servicecidr"
)

type Resource struct {
	Keyword string
	// KeyPrefix is the prefix of the keys without models.KSRPrefix; it ends with a slash.
	KeyPrefix string
	message   proto.Message
	// byPeople: values are written by hand, so unknown fields are typos
	byPeople bool
	// keyOf returns the key of the object that a value describes. It is nil for values that belong to
	// their key, whatever they say, and for records of nodes, which package nodesync checks.
	keyOf func(proto.Message) string
}

var resources = []Resource{
	{Keyword: VppNode, KeyPrefix: VppNodePrefix, message: (*vppnode.VppNode)(nil)},
	{Keyword: NodeConfig, KeyPrefix: "k8s/nodeconfig/", message: (*nodeconfig.NodeConfig)(nil), byPeople: true},
	{Keyword: Node, KeyPrefix: "k8s/node/", message: (*node.Node)(nil), keyOf: named(NodeKey)},
	{Keyword: Pod, KeyPrefix: "k8s/pod/", message: (*pod.Pod)(nil), keyOf: namespaced(PodKey)},
	{Keyword: Namespace, KeyPrefix: "k8s/namespace/", message: (*namespace.Namespace)(nil), keyOf: named(NamespaceKey)},
	{Keyword: Policy, KeyPrefix: "k8s/policy/", message: (*policy.Policy)(nil), keyOf: namespaced(PolicyKey)},
	{Keyword: ClusterPolicy, KeyPrefix: "k8s/clusternetworkpolicy/", message: (*policy.ClusterPolicy)(nil), keyOf: named(ClusterPolicyKey)},
	{Keyword: ServiceCIDR, KeyPrefix: "k8s/servicecidr/", message: (*servicecidr.ServiceCIDR)(nil), keyOf: named(ServiceCIDRKey)},
	{Keyword: Service, KeyPrefix: "k8s/service/", message: (*service.Service)(nil), keyOf: namespaced(ServiceKey)},
	{Keyword: EndpointSlice, KeyPrefix: "k8s/endpointslice/", message: (*endpointslice.EndpointSlice)(nil), keyOf: namespaced(EndpointSliceKey)},
}

func named(key func(name string) string) func(proto.Message) string {
	return func(value proto.Message) string { return key(value.(interface{ GetName() string }).GetName()) }
}

func namespaced(key func(name, namespace string) string) func(proto.Message) string {
	return func(value proto.Message) string {
		object := value.(interface {
			GetName() string
			GetNamespace() string
		})
		return key(object.GetName(), object.GetNamespace())
	}
}

// All returns the resources in the order of their references.
func All() []Resource { return append([]Resource(nil), resources...) }

// ForKey returns the resource of a key without models.KSRPrefix.
func ForKey(key string) (Resource, bool) {
	for _, r := range resources {
		if len(key) > len(r.KeyPrefix) && strings.HasPrefix(key, r.KeyPrefix) {
			return r, true
		}
	}
	return Resource{}, false
}

func (r Resource) New() proto.Message { return r.message.ProtoReflect().New().Interface() }

// Unmarshal decodes a stored value. It ignores unknown fields of newer writers; in handwritten
// values they are errors.
func (r Resource) Unmarshal(data []byte) (proto.Message, error) {
	msg := r.New()
	if !r.byPeople {
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, msg); err != nil {
			if _, err := models.DecodeJSON(data, r.New()); err != nil {
				return nil, fmt.Errorf("value %w", err) // in contrast to err of protojson, it quotes no values
			}
			return nil, fmt.Errorf("value is no JSON of %s", proto.MessageName(msg))
		}
		return msg, nil
	}
	unknown, err := models.DecodeJSON(data, msg)
	if err != nil {
		return nil, fmt.Errorf("value %w", err)
	}
	var errs []error
	for _, field := range unknown {
		errs = append(errs, field.Err())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return msg, nil
}

// Check returns an error if a value describes another object than its key, without models.KSRPrefix.
// Handlers know objects by their names, so that the deletion of the key would not remove the object.
func (r Resource) Check(key string, value proto.Message) error {
	if r.keyOf == nil {
		return nil
	}
	if of := r.keyOf(value); of != key {
		return fmt.Errorf("value describes another object, whose key is %.300q", of)
	}
	return nil
}

// WrittenBy reports whether the agent of the node wrote the value. The agent must restore it after
// a loss of the database.
func (r Resource) WrittenBy(agent string, value proto.Message) bool {
	v, ok := value.(*vppnode.VppNode)
	return ok && v.GetName() == agent
}

// Marshal encodes a value as stored.
func Marshal(msg proto.Message) ([]byte, error) {
	return protojson.MarshalOptions{UseProtoNames: true}.Marshal(msg)
}

// ReflectedKey, without models.KSRPrefix, exists when the database holds all of the Kubernetes
// state: KSR writes it last. Its value is KSR's statistics.
const ReflectedKey = "status/gauges"

// KSRStatusKey, without models.KSRPrefix, holds the status of KSR; see package internal/agent/health/published.
const KSRStatusKey = "status/ksr"

// VppNodePrefix, without models.KSRPrefix, is the prefix of node IDs.
const VppNodePrefix = "allocatedIDs/"

// VppNodeKey is the key, without models.KSRPrefix, of the node with the ID.
func VppNodeKey(id uint32) string { return fmt.Sprintf("%s%d", VppNodePrefix, id) }

// NodeConfigKey is the key, without models.KSRPrefix, of a node's NodeConfig.
func NodeConfigKey(node string) string { return "k8s/nodeconfig/" + node }

// NodeKey is the key, without models.KSRPrefix, of a Kubernetes node.
func NodeKey(name string) string { return "k8s/node/" + name }

// NamespaceKey is the key, without models.KSRPrefix, of a namespace.
func NamespaceKey(name string) string { return "k8s/namespace/" + name }

// PodKey is the key, without models.KSRPrefix, of a pod.
func PodKey(name, namespace string) string { return "k8s/pod/" + name + "/namespace/" + namespace }

// PolicyKey is the key, without models.KSRPrefix, of a network policy.
func PolicyKey(name, namespace string) string {
	return "k8s/policy/" + name + "/namespace/" + namespace
}

// ClusterPolicyKey is the key, without models.KSRPrefix, of a cluster network policy.
func ClusterPolicyKey(name string) string { return "k8s/clusternetworkpolicy/" + name }

// ServiceCIDRKey is the key, without models.KSRPrefix, of ranges of cluster IPs.
func ServiceCIDRKey(name string) string { return "k8s/servicecidr/" + name }

// ServiceKey is the key, without models.KSRPrefix, of a service.
func ServiceKey(name, namespace string) string {
	return "k8s/service/" + name + "/namespace/" + namespace
}

// EndpointSliceKey is the key, without models.KSRPrefix, of an endpoint slice. The value names the
// slice's service.
func EndpointSliceKey(name, namespace string) string {
	return "k8s/endpointslice/" + name + "/namespace/" + namespace
}
