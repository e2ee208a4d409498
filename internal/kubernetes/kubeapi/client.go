package kubeapi

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Lister reads the objects of a kind, in one namespace or in all. L is the kind's list.
type Lister[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// Objects accesses the objects T of a kind. It has the methods of client-go and returns its errors.
type Objects[T, L runtime.Object] interface {
	Lister[L]
	Get(ctx context.Context, name string, o metav1.GetOptions) (T, error)
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
	Patch(ctx context.Context, name string, t types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string) (T, error)
}

// Requests accesses CertificateSigningRequests.
type Requests interface {
	Objects[*certificatesv1.CertificateSigningRequest, *certificatesv1.CertificateSigningRequestList]
	UpdateStatus(context.Context, *certificatesv1.CertificateSigningRequest, metav1.UpdateOptions) (*certificatesv1.CertificateSigningRequest, error)
	UpdateApproval(ctx context.Context, name string, r *certificatesv1.CertificateSigningRequest, o metav1.UpdateOptions) (*certificatesv1.CertificateSigningRequest, error)
}

// Client accesses a cluster. The functions take a namespace; "" stands for all.
type Client struct {
	Namespaces      Objects[*corev1.Namespace, *corev1.NamespaceList]
	Nodes           Objects[*corev1.Node, *corev1.NodeList]
	Requests        Requests
	Pods            func(namespace string) Objects[*corev1.Pod, *corev1.PodList]
	Services        func(namespace string) Objects[*corev1.Service, *corev1.ServiceList]
	Secrets         func(namespace string) Objects[*corev1.Secret, *corev1.SecretList]
	Events          func(namespace string) Objects[*corev1.Event, *corev1.EventList]
	EndpointSlices  func(namespace string) Objects[*discoveryv1.EndpointSlice, *discoveryv1.EndpointSliceList]
	NetworkPolicies func(namespace string) Objects[*networkingv1.NetworkPolicy, *networkingv1.NetworkPolicyList]

	ready func(context.Context) error
}

var (
	scheme    = newScheme()
	parameter = runtime.NewParameterCodec(scheme)
)

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, certificatesv1.AddToScheme, discoveryv1.AddToScheme, networkingv1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // fails only for two types of one name
		}
	}
	return s
}

// newClient does not connect yet.
func newClient(config *rest.Config) (*Client, error) {
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	groups := map[schema.GroupVersion]rest.Interface{}
	for _, gv := range []schema.GroupVersion{corev1.SchemeGroupVersion, certificatesv1.SchemeGroupVersion, discoveryv1.SchemeGroupVersion, networkingv1.SchemeGroupVersion} {
		c := rest.CopyConfig(config)
		c.GroupVersion, c.APIPath = &gv, "/apis"
		if gv.Group == "" {
			c.APIPath = "/api"
		}
		c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
		if groups[gv], err = rest.RESTClientForConfigAndClient(c, transport); err != nil {
			return nil, err
		}
	}
	core, certificates := groups[corev1.SchemeGroupVersion], groups[certificatesv1.SchemeGroupVersion]
	return &Client{
		Namespaces:      objects[corev1.Namespace, corev1.NamespaceList](core, "namespaces")(""),
		Nodes:           objects[corev1.Node, corev1.NodeList](core, "nodes")(""),
		Requests:        requests{typed[certificatesv1.CertificateSigningRequest, certificatesv1.CertificateSigningRequestList](certificates, requestsName, ""), certificates},
		Pods:            objects[corev1.Pod, corev1.PodList](core, "pods"),
		Services:        objects[corev1.Service, corev1.ServiceList](core, "services"),
		Secrets:         objects[corev1.Secret, corev1.SecretList](core, "secrets"),
		Events:          objects[corev1.Event, corev1.EventList](core, "events"),
		EndpointSlices:  objects[discoveryv1.EndpointSlice, discoveryv1.EndpointSliceList](groups[discoveryv1.SchemeGroupVersion], "endpointslices"),
		NetworkPolicies: objects[networkingv1.NetworkPolicy, networkingv1.NetworkPolicyList](groups[networkingv1.SchemeGroupVersion], "networkpolicies"),
		ready:           func(ctx context.Context) error { return core.Get().AbsPath("/readyz").Do(ctx).Error() },
	}, nil
}

// object is a pointer to a T.
type object[T any] interface {
	*T
	runtime.Object
	metav1.Object
}

type list[L any] interface {
	*L
	runtime.Object
}

func typed[T, L any, PT object[T], PL list[L]](group rest.Interface, resource, namespace string) *gentype.ClientWithList[PT, PL] {
	return gentype.NewClientWithList(resource, group, parameter, namespace, func() PT { return new(T) }, func() PL { return new(L) }, gentype.PrefersProtobuf[PT]())
}

func objects[T, L any, PT object[T], PL list[L]](group rest.Interface, resource string) func(namespace string) Objects[PT, PL] {
	return func(namespace string) Objects[PT, PL] { return typed[T, L, PT, PL](group, resource, namespace) }
}

const requestsName = "certificatesigningrequests"

type requests struct {
	*gentype.ClientWithList[*certificatesv1.CertificateSigningRequest, *certificatesv1.CertificateSigningRequestList]
	group rest.Interface
}

func (c requests) UpdateApproval(ctx context.Context, name string, r *certificatesv1.CertificateSigningRequest, o metav1.UpdateOptions) (*certificatesv1.CertificateSigningRequest, error) {
	result := &certificatesv1.CertificateSigningRequest{}
	err := c.group.Put().Resource(requestsName).Name(name).SubResource("approval").VersionedParams(&o, parameter).Body(r).Do(ctx).Into(result)
	return result, err
}

// NewInformer follows the objects that selected chooses; nil: all. example is an empty object of the
// kind.
func NewInformer[L runtime.Object](objects Lister[L], example runtime.Object, selected func(*metav1.ListOptions)) cache.SharedIndexInformer {
	choose := func(o *metav1.ListOptions) {
		if selected != nil {
			selected(o)
		}
	}
	return cache.NewSharedIndexInformer(Pages{ListWatch: &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			choose(&o)
			return List(ctx, objects, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			choose(&o)
			return objects.Watch(ctx, o)
		},
	}}, example, 0, nil)
}

// Pages reads the initial objects by lists, not by a watch that sends them. An API server may have
// the feature WatchList switched off, as 1.33 has by default, and its clients then list anyway.
type Pages struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported makes client-go list.
func (Pages) IsWatchListSemanticsUnSupported() bool { return true }

// List returns a nil interface with an error.
func List[L runtime.Object](ctx context.Context, objects Lister[L], o metav1.ListOptions) (runtime.Object, error) {
	l, err := objects.List(ctx, o)
	if err != nil {
		return nil, err
	}
	return l, nil
}
