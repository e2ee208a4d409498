package location

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/contiv/contiv/internal/kubernetes/kubeaddr"
	"github.com/contiv/contiv/internal/kubernetes/kubeapi"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Service is the name of etcd's service.
const Service = "contiv-etcd"

const selector = discoveryv1.LabelServiceName + "=" + Service

// Find returns the addresses, "host:port", of etcd's pods in the namespace. It may be empty.
func Find(ctx context.Context, client *kubeapi.Client, namespace string) ([]string, error) {
	list, err := client.EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("find the pods of etcd: %w", err)
	}
	var found []*discoveryv1.EndpointSlice
	for i := range list.Items {
		found = append(found, &list.Items[i])
	}
	return members(found), nil
}

// members returns the endpoints of the slices, sorted. It ignores conditions, because pods of a
// node that is not ready are not ready, and etcd must be found before the network works.
func members(found []*discoveryv1.EndpointSlice) (list []string) {
	for _, slice := range found {
		for _, port := range slice.Ports {
			for _, endpoint := range slice.Endpoints {
				if port.Port == nil || len(endpoint.Addresses) == 0 {
					continue
				}
				if addr, err := kubeaddr.ParseAddr(endpoint.Addresses[0]); err == nil {
					list = append(list, net.JoinHostPort(addr.String(), strconv.Itoa(int(*port.Port))))
				}
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Keep writes the result of Find to a file, one address per line, on each change until ctx ends.
// While etcd has no pods, the file keeps its content, because etcd may return at the same address.
func Keep(ctx context.Context, client *kubeapi.Client, namespace, file string, log *slog.Logger) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("directory of the addresses of etcd: %w", err)
	}
	informer := kubeapi.NewInformer(client.EndpointSlices(namespace), &discoveryv1.EndpointSlice{}, func(o *metav1.ListOptions) { o.LabelSelector = selector })
	changed := make(chan struct{}, 1)
	notice := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { notice() }, UpdateFunc: func(any, any) { notice() }, DeleteFunc: func(any) { notice() },
	})
	if err != nil {
		return fmt.Errorf("watch the pods of etcd: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	following.Go(func() { informer.RunWithContext(ctx) })
	written := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		var found []*discoveryv1.EndpointSlice
		for _, object := range informer.GetStore().List() {
			found = append(found, object.(*discoveryv1.EndpointSlice))
		}
		text := strings.Join(append(members(found), ""), "\n")
		if text == "" || text == written {
			continue
		}
		if err := replace(file, text); err != nil {
			return fmt.Errorf("addresses of etcd: %w", err)
		}
		written = text
		log.Info("etcd found", "members", members(found))
	}
}

func replace(path, text string) error {
	temporary := path + ".new"
	err := os.WriteFile(temporary, []byte(text), 0o600)
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(temporary))
	}
	return nil
}
