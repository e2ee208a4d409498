package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

var (
	Namespaces      = corev1.SchemeGroupVersion.WithResource("namespaces")
	Nodes           = corev1.SchemeGroupVersion.WithResource("nodes")
	Pods            = corev1.SchemeGroupVersion.WithResource("pods")
	ConfigMaps      = corev1.SchemeGroupVersion.WithResource("configmaps")
	Secrets         = corev1.SchemeGroupVersion.WithResource("secrets")
	Services        = corev1.SchemeGroupVersion.WithResource("services")
	ServiceCIDRs    = networkingv1.SchemeGroupVersion.WithResource("servicecidrs")
	EndpointSlices  = discoveryv1.SchemeGroupVersion.WithResource("endpointslices")
	DaemonSets      = appsv1.SchemeGroupVersion.WithResource("daemonsets")
	StatefulSets    = appsv1.SchemeGroupVersion.WithResource("statefulsets")
	SigningRequests = certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests")
)

// Client is a client of an API server. It does not use client-go's generated clients (package
// kubernetes), because registering all kinds of Kubernetes doubles contivctl's start time.
type Client struct {
	dynamic.Interface
	rest rest.Interface
}

// NewClient returns a client without connecting.
func NewClient(config *rest.Config) (*Client, error) {
	r, err := rest.UnversionedRESTClientFor(dynamic.ConfigFor(config))
	if err != nil {
		return nil, err
	}
	return &Client{Interface: dynamic.New(r), rest: r}, nil
}

// Version returns the version of the API server.
func (c *Client) Version(ctx context.Context) (string, error) {
	var v version.Info
	err := c.get(ctx, &v, c.rest.Get().AbsPath("/version"))
	return v.GitVersion, err
}

// Kinds returns the resource of each kind in an API group version. It is empty if the API server
// does not serve that version.
func (c *Client) Kinds(ctx context.Context, of schema.GroupVersion) (map[string]schema.GroupVersionResource, error) {
	path := "/apis/" + of.String()
	if of.Group == "" {
		path = "/api/" + of.Version
	}
	var list metav1.APIResourceList
	if err := c.get(ctx, &list, c.rest.Get().AbsPath(path)); err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	kinds := map[string]schema.GroupVersionResource{}
	for _, r := range list.APIResources {
		if !strings.Contains(r.Name, "/") {
			kinds[r.Kind] = of.WithResource(r.Name)
		}
	}
	return kinds, nil
}

// Logs returns the output of a container.
func (c *Client) Logs(ctx context.Context, namespace, pod, container string) (io.ReadCloser, error) {
	return c.pod(c.rest.Get(), namespace, pod, "log").Param("container", container).Stream(ctx)
}

func (c *Client) exec(namespace, pod, container string, command ...string) *url.URL {
	r := c.pod(c.rest.Post(), namespace, pod, "exec").Param("container", container)
	for _, word := range command {
		r.Param("command", word)
	}
	return r.Param("stdin", "true").Param("stdout", "true").Param("stderr", "true").URL()
}

func (c *Client) pod(r *rest.Request, namespace, name, subresource string) *rest.Request {
	return r.AbsPath("/api/v1").Namespace(namespace).Resource("pods").Name(name).SubResource(subresource)
}

func (c *Client) get(ctx context.Context, answer any, r *rest.Request) error {
	result := r.Do(ctx)
	if err := result.Error(); err != nil {
		return err
	}
	data, err := result.Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(data, answer)
}

// Get returns an object.
func Get[T any](ctx context.Context, from dynamic.ResourceInterface, name string) (*T, error) {
	o, err := from.Get(ctx, name, metav1.GetOptions{})
	return typed[T](o, err)
}

// List returns the objects that match a label selector ("": all).
func List[T any](ctx context.Context, from dynamic.ResourceInterface, selector string) ([]T, error) {
	list, err := from.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	objects := make([]T, len(list.Items))
	for i := range objects {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &objects[i]); err != nil {
			return nil, fmt.Errorf("%s %s: %w", list.Items[i].GetKind(), list.Items[i].GetName(), err)
		}
	}
	return objects, nil
}

// Create creates an object, which must have its kind set, and returns the stored object.
func Create[T any](ctx context.Context, in dynamic.ResourceInterface, object *T, options metav1.CreateOptions) (*T, error) {
	o, err := untyped(object)
	if err == nil {
		o, err = in.Create(ctx, o, options)
	}
	return typed[T](o, err)
}

// Update updates a subresource of an object, which must have its kind set, and returns the stored
// object.
func Update[T any](ctx context.Context, in dynamic.ResourceInterface, object *T, subresource string) (*T, error) {
	o, err := untyped(object)
	if err == nil {
		o, err = in.Update(ctx, o, metav1.UpdateOptions{}, subresource)
	}
	return typed[T](o, err)
}

func untyped(object any) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	return &unstructured.Unstructured{Object: fields}, err
}

func typed[T any](o *unstructured.Unstructured, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	object := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, object); err != nil {
		return nil, fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return object, nil
}
