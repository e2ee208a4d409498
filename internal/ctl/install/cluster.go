package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/ctl/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// manager is our field manager in the API server.
const manager = "contivctl"

// Cluster is a Kubernetes cluster with administrator rights.
type Cluster struct {
	client *kube.Client
	host   string
	out    io.Writer
	// filter is Manifests.PostRenderer, for pods that we create.
	filter string
}

// Connect returns the cluster of a kubeconfig file, or of a context in it; see kube.Config. It
// writes progress to out. It does not connect yet.
func Connect(kubeconfig, context, filter string, out io.Writer) (*Cluster, error) {
	rest, err := kube.Config(kubeconfig, context)
	if err != nil {
		return nil, err
	}
	rest.QPS, rest.Burst = 50, 100
	client, err := kube.NewClient(rest)
	if err != nil {
		return nil, err
	}
	return &Cluster{client: client, host: rest.Host, out: out, filter: filter}, nil
}

// ours returns the objects of a resource in Contiv's namespace.
func (c *Cluster) ours(r schema.GroupVersionResource) dynamic.ResourceInterface {
	return c.client.Resource(r).Namespace(Namespace)
}

func (c *Cluster) say(format string, args ...any) { fmt.Fprintf(c.out, format+"\n", args...) }

// reachable returns an error if the API server cannot be reached.
func (c *Cluster) reachable(ctx context.Context) error {
	if _, err := c.client.Resource(kube.Namespaces).Get(ctx, Namespace, metav1.GetOptions{}); err != nil {
		return fmt.Errorf("connect to the API server %s: %w", c.host, err)
	}
	return nil
}

// apply creates or updates the objects.
func (c *Cluster) apply(ctx context.Context, objects []*unstructured.Unstructured) error {
	resources, err := c.resources(ctx, objects)
	if err != nil {
		return err
	}
	for i, o := range objects {
		before, err := resources[i].Get(ctx, o.GetName(), metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("read %s: %w", name(o), err)
		}
		if err == nil && isDefinition(o) {
			continue
		}
		data, err := json.Marshal(o.Object)
		if err != nil {
			return err
		}
		force := true // objects installed by kubectl or Helm become ours
		after, err := resources[i].Patch(ctx, o.GetName(), types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: manager, Force: &force})
		switch {
		case err != nil && isDefinition(o):
			c.say("optional %s skipped: %v", name(o), err)
		case apierrors.IsForbidden(err):
			return fmt.Errorf("apply %s: %w: use a kubeconfig of a cluster administrator", name(o), err)
		case err != nil:
			return fmt.Errorf("apply %s: %w", name(o), err)
		case before == nil || before.GetUID() == "":
			c.say("%s created", name(o))
		case before.GetResourceVersion() != after.GetResourceVersion():
			c.say("%s changed", name(o))
		}
	}
	return nil
}

// delete removes existing objects, the last one first.
func (c *Cluster) delete(ctx context.Context, objects []*unstructured.Unstructured) error {
	resources, err := c.resources(ctx, objects)
	if err != nil {
		return err
	}
	policy := metav1.DeletePropagationForeground
	var errs []error
	for i, o := range slices.Backward(objects) {
		if isDefinition(o) {
			continue
		}
		err := resources[i].Delete(ctx, o.GetName(), metav1.DeleteOptions{PropagationPolicy: &policy})
		switch {
		case err == nil:
			c.say("%s deleted", name(o))
		case !apierrors.IsNotFound(err):
			errs = append(errs, fmt.Errorf("delete %s: %w", name(o), err))
		}
	}
	return errors.Join(errs...)
}

// present returns the names of the existing objects in deletion order.
func (c *Cluster) present(ctx context.Context, objects []*unstructured.Unstructured) (names []string, err error) {
	resources, err := c.resources(ctx, objects)
	if err != nil {
		return nil, err
	}
	for i, o := range slices.Backward(objects) {
		if isDefinition(o) {
			continue
		}
		if _, err := resources[i].Get(ctx, o.GetName(), metav1.GetOptions{}); err == nil {
			names = append(names, name(o))
		} else if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("read %s: %w", name(o), err)
		}
	}
	return names, nil
}

// resources returns the API resource of each object.
func (c *Cluster) resources(ctx context.Context, objects []*unstructured.Unstructured) ([]dynamic.ResourceInterface, error) {
	kinds := map[schema.GroupVersion]map[string]schema.GroupVersionResource{}
	found := make([]dynamic.ResourceInterface, len(objects))
	for i, o := range objects {
		kind := o.GroupVersionKind()
		version := kind.GroupVersion()
		if kinds[version] == nil {
			var err error
			if kinds[version], err = c.client.Kinds(ctx, version); err != nil {
				return nil, fmt.Errorf("list the resources of the API server %s: %w", c.host, err)
			}
		}
		resource, ok := kinds[version][kind.Kind]
		if !ok {
			err := &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
			return nil, fmt.Errorf("%s: the cluster does not support this kind: %w", name(o), err)
		}
		found[i] = c.client.Resource(resource)
		if o.GetNamespace() != "" {
			found[i] = c.client.Resource(resource).Namespace(o.GetNamespace())
		}
	}
	return found, nil
}

// isDefinition reports whether the object is a CustomResourceDefinition. Definitions are shared: a
// missing one is created, an existing one left alone.
func isDefinition(o *unstructured.Unstructured) bool {
	return o.GetKind() == "CustomResourceDefinition"
}

func name(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetKind() + " " + o.GetName()
	}
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
}

// interval is the polling interval.
const interval = time.Second

// until calls check until it reports done. API errors are returned only after the timeout; the
// error then names the missing parts.
func until(ctx context.Context, check func(context.Context) (missing string, err error)) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		missing, err := check(ctx)
		if err == nil && missing == "" {
			return nil
		}
		var fatal *fatalError
		if errors.As(err, &fatal) {
			return err
		}
		if err != nil {
			missing = err.Error()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s (%w)", strings.TrimSuffix(missing, "\n"), context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// fatalError is an error that ends the waiting.
type fatalError struct{ error }

func (e *fatalError) Unwrap() error { return e.error }
