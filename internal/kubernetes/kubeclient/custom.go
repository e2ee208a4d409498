package kubeclient

import (
	"context"
	"fmt"
	"time"

	"github.com/contiv/contiv/internal/kubernetes/ksr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// absentVersion is the resource version of an absent resource's list. A watch from there starts
// with all objects.
const absentVersion = "0"

// absentFor is the interval of checks for a missing resource.
const absentFor = 5 * time.Second

// describeCustom describes a resource that not every cluster has, such as one of a
// CustomResourceDefinition, which may be added and removed. While it is absent, lists are empty,
// and watches end after a while without events. Objects that cannot be decoded belong to another
// version of the definition and are an error.
func describeCustom(kind ksr.Kind, example ksr.Object, c dynamic.NamespaceableResourceInterface, name string) resource {
	decode := func(o runtime.Object) (runtime.Object, error) {
		u, ok := o.(*unstructured.Unstructured)
		if !ok {
			return o, nil
		}
		out := example.DeepCopyObject()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
			return nil, fmt.Errorf("%s %q: %w", u.GetKind(), u.GetName(), err)
		}
		return out, nil
	}
	return resource{
		kind: kind, name: name, example: example,
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := c.List(ctx, o)
			if apierrors.IsNotFound(err) {
				return &internalversion.List{ListMeta: metav1.ListMeta{ResourceVersion: absentVersion}}, nil
			}
			if err != nil {
				return nil, err
			}
			out := &internalversion.List{ListMeta: metav1.ListMeta{ResourceVersion: list.GetResourceVersion(), Continue: list.GetContinue()}}
			for i := range list.Items {
				object, err := decode(&list.Items[i])
				if err != nil {
					return nil, err
				}
				out.Items = append(out.Items, object)
			}
			return out, nil
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := c.Watch(ctx, o)
			if apierrors.IsNotFound(err) && o.ResourceVersion == absentVersion {
				return absent(ctx), nil
			}
			if apierrors.IsNotFound(err) { // removed with its objects
				return nil, apierrors.NewResourceExpired(err.Error())
			}
			if err != nil {
				return nil, err
			}
			return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
				object, err := decode(e.Object)
				if err != nil {
					status := apierrors.NewResourceExpired(err.Error()).Status()
					return watch.Event{Type: watch.Error, Object: &status}, true
				}
				e.Object = object
				return e, true
			}), nil
		},
	}
}

// absent returns a watch that ends after a while without events.
func absent(ctx context.Context) watch.Interface {
	w := watch.NewFake()
	go func() {
		select {
		case <-ctx.Done():
		case <-time.After(absentFor):
		}
		w.Stop()
	}()
	return w
}
