package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/ctl/kube"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// onNodes runs a pod to completion on each node and returns the container output by node. It
// deletes all pods. make returns the spec of a pod, which passes the filter unless it already has.
// The error for a failed pod contains its output.
func (c *Cluster) onNodes(ctx context.Context, app string, nodes []string, filtered bool, make func(node string) *corev1.PodSpec) (map[string]string, error) {
	pods, selector := c.ours(kube.Pods), "app="+app
	remove := func(ctx context.Context) error {
		return pods.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{LabelSelector: selector})
	}
	if err := remove(ctx); err != nil { // left by an earlier call
		return nil, err
	}
	defer remove(context.WithoutCancel(ctx))
	names := map[string]string{} // pod to node
	for _, node := range nodes {
		spec := make(node)
		spec.NodeName, spec.RestartPolicy, spec.HostNetwork = node, corev1.RestartPolicyNever, true
		spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		pod := &corev1.Pod{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{GenerateName: app + "-", Namespace: Namespace, Labels: map[string]string{"app": app}},
			Spec:       *spec,
		}
		var err error
		if !filtered {
			pod, err = c.throughFilter(ctx, pod)
		}
		if err == nil {
			pod, err = c.createPod(ctx, pod)
		}
		if err != nil {
			return nil, fmt.Errorf("a pod on node %s: %w", node, err)
		}
		names[pod.Name] = node
	}
	if err := c.awaitEnd(ctx, selector, names); err != nil {
		return nil, err
	}
	printed := map[string]string{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(names)) {
		pod, err := kube.Get[corev1.Pod](ctx, pods, name)
		if err != nil {
			return nil, err
		}
		container := pod.Spec.Containers[0].Name
		for _, s := range pod.Status.InitContainerStatuses {
			if s.State.Terminated != nil && s.State.Terminated.ExitCode != 0 {
				container = s.Name
			}
		}
		text, err := c.logs(ctx, name, container)
		switch node := names[name]; {
		case pod.Status.Phase == corev1.PodFailed:
			errs = append(errs, fmt.Errorf("node %s: %s", node, strings.TrimSpace(text)))
		case err != nil:
			errs = append(errs, fmt.Errorf("node %s: %w", node, err))
		default:
			printed[node] = text
		}
	}
	return printed, errors.Join(errs...)
}

// createPod creates a pod. It retries in the first seconds of a cluster, when the namespace has no
// service account yet.
func (c *Cluster) createPod(ctx context.Context, pod *corev1.Pod) (created *corev1.Pod, err error) {
	err = until(ctx, func(ctx context.Context) (string, error) {
		created, err = kube.Create(ctx, c.client.Resource(kube.Pods).Namespace(pod.Namespace), pod, metav1.CreateOptions{FieldManager: manager})
		switch {
		case err == nil:
			return "", nil
		case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "error looking up service account"):
			return "", err
		}
		return "", &fatalError{err}
	})
	return created, err
}

func (c *Cluster) awaitEnd(ctx context.Context, selector string, names map[string]string) error {
	return until(ctx, func(ctx context.Context) (string, error) {
		pods, err := kube.List[corev1.Pod](ctx, c.ours(kube.Pods), selector)
		if err != nil {
			return "", err
		}
		var missing []string
		ended := 0
		for _, pod := range pods {
			switch {
			case names[pod.Name] == "": // not one of ours
			case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
				ended++
			default:
				text := problem(&pod)
				if strings.Contains(text, "has no image") {
					return "", &fatalError{errors.New(text)}
				}
				missing = append(missing, fmt.Sprintf("pod %s on node %s did not stop %s", pod.Name, names[pod.Name], text))
			}
		}
		if len(missing) == 0 && ended < len(names) {
			return "", &fatalError{errors.New("the pods of contivctl were deleted")}
		}
		return strings.Join(missing, "\n"), nil
	})
}

func (c *Cluster) logs(ctx context.Context, pod, container string) (string, error) {
	stream, err := c.client.Logs(ctx, Namespace, pod, container)
	if err != nil {
		return "", err
	}
	defer stream.Close()
	text, err := io.ReadAll(io.LimitReader(stream, 1<<20))
	return string(text), err
}

// throughFilter applies the filter to a pod.
func (c *Cluster) throughFilter(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		return nil, err
	}
	objects, err := filter(ctx, c.filter, []*unstructured.Unstructured{{Object: fields}})
	if err != nil {
		return nil, err
	}
	if len(objects) != 1 {
		return nil, fmt.Errorf("%s returned %d objects for one pod", c.filter, len(objects))
	}
	filtered := &corev1.Pod{}
	return filtered, runtime.DefaultUnstructuredConverter.FromUnstructured(objects[0].Object, filtered)
}

// nodeNames returns the names of all nodes.
func (c *Cluster) nodeNames(ctx context.Context) (names []string, err error) {
	nodes, err := kube.List[corev1.Node](ctx, c.client.Resource(kube.Nodes), "")
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	return names, nil
}
