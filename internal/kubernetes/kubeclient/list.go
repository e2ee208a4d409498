package kubeclient

import (
	"context"

	"github.com/contiv/contiv/internal/kubernetes/ksr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// pageSize is the number of objects per request. Each page is trimmed to the reflected fields,
// which saves most of the memory.
const pageSize = 500

// listAll reads all objects in pages, as of one moment not before the call. The cache of an API
// server that lags behind may contain deleted objects.
func (r resource) listAll(ctx context.Context) (runtime.Object, error) {
	all, err := r.listPages(ctx, pageSize)
	if apierrors.IsResourceExpired(err) { // reading the pages took too long
		return r.listPages(ctx, 0)
	}
	return all, err
}

// listPages returns a nil object with an error.
func (r resource) listPages(ctx context.Context, limit int64) (runtime.Object, error) {
	all := &internalversion.List{}
	options := metav1.ListOptions{Limit: limit}
	for {
		page, err := r.list(ctx, options)
		if err != nil {
			return nil, err
		}
		err = meta.EachListItem(page, func(o runtime.Object) error {
			all.Items = append(all.Items, trim(o))
			return nil
		})
		if err != nil {
			return nil, err
		}
		listMeta, err := meta.ListAccessor(page)
		if err != nil {
			return nil, err
		}
		all.ResourceVersion = listMeta.GetResourceVersion()
		if options.Continue = listMeta.GetContinue(); options.Continue == "" {
			return all, nil
		}
	}
}

func trim(object runtime.Object) runtime.Object {
	if o, ok := object.(ksr.Object); ok {
		return ksr.Trim(o)
	}
	return object
}
