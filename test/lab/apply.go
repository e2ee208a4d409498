package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/contiv/contiv/ksr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// namespaced are the kinds whose objects are in the namespace "default" unless
// they say otherwise.
var namespaced = []string{"ConfigMap", "Endpoints", "EndpointSlice", "NetworkPolicy", "Pod", "Service"}

// Apply reads Kubernetes objects from the file, "-" for the standard input, and gives them to KSR. Pods that
// name a node of the lab are made there; those that exist get the new labels
// and annotations. The result says what was done, a line per object.
func (l *Lab) Apply(ctx context.Context, file string) ([]string, error) {
	objects, err := l.readManifests(file)
	if err != nil {
		return nil, err
	}
	var done []string
	for _, object := range objects {
		what, err := l.applyOne(ctx, object)
		if err != nil {
			return done, fmt.Errorf("%s: %s %s: %w", file, object.GetKind(), object.GetName(), err)
		}
		done = append(done, fmt.Sprintf("%s %s %s", object.GetKind(), objectID(object), what))
	}
	return done, nil
}

// Delete removes the objects that the file names, pods included.
func (l *Lab) Delete(ctx context.Context, file string) ([]string, error) {
	objects, err := l.readManifests(file)
	if err != nil {
		return nil, err
	}
	var done []string
	for _, object := range slices.Backward(objects) {
		if err := l.deleteOne(ctx, object); err != nil {
			return done, fmt.Errorf("%s: %s %s: %w", file, object.GetKind(), object.GetName(), err)
		}
		done = append(done, fmt.Sprintf("%s %s deleted", object.GetKind(), objectID(object)))
	}
	return done, nil
}

func (l *Lab) readManifests(file string) ([]*unstructured.Unstructured, error) {
	st, err := l.State()
	if err != nil {
		return nil, err
	}
	if st.Calico {
		return nil, fmt.Errorf("lab %s reads no Kubernetes objects: %w; %s and node add and remove what it has", l.Name(), ErrCalico, Command(l.Name(), "pod"))
	}
	data, err := readFile(file)
	if err != nil {
		return nil, err
	}
	objects, err := parseManifests(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, object := range objects {
		if object.GetNamespace() == "" && slices.Contains(namespaced, object.GetKind()) {
			object.SetNamespace(DefaultNamespace)
		}
		if object.GetKind() == "Node" {
			return nil, fmt.Errorf("%s: the lab itself writes the objects of its nodes; %s adds one", file, Command(l.Name(), "node add "+object.GetName()))
		}
		if _, known := ksr.NewObject(object.GetAPIVersion(), object.GetKind()); !known {
			return nil, fmt.Errorf("%s: %s %s %s: KSR reads no objects of this kind, so that it would change nothing; it reads Namespace, Pod, Service, EndpointSlice, "+
				"NetworkPolicy and ClusterNetworkPolicy: check kind and apiVersion", file, object.GetAPIVersion(), object.GetKind(), object.GetName())
		}
	}
	return objects, nil
}

// readFile reads a file, or the standard input if that is "-".
func readFile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(name)
}

func objectID(object *unstructured.Unstructured) string {
	if object.GetNamespace() == "" {
		return object.GetName()
	}
	return object.GetNamespace() + "/" + object.GetName()
}

func objectManifest(object *unstructured.Unstructured) manifest {
	return manifest{manifestName(object.GetKind(), object.GetNamespace(), object.GetName()), object.Object}
}

func (l *Lab) applyOne(ctx context.Context, object *unstructured.Unstructured) (string, error) {
	pod, err := toPod(object)
	if err != nil {
		return "", err
	}
	st, err := l.State()
	if err != nil {
		return "", err
	}
	switch {
	case pod != nil && st.podIndex(pod.Namespace+"/"+pod.Name) >= 0:
		return "changed", l.changePod(ctx, pod)
	case pod != nil && pod.Spec.NodeName != "" && !pod.Spec.HostNetwork:
		added, err := l.AddPod(ctx, PodSpec{Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, Template: pod})
		return fmt.Sprintf("runs on %s with address %s", added.Node, added.Address), err
	}
	return "given to KSR", l.change(ctx, func(*State) error { return l.writeManifest(objectManifest(object)) })
}

// changePod replaces what the user may change of a pod's object.
func (l *Lab) changePod(ctx context.Context, template *corev1.Pod) error {
	return l.change(ctx, func(st *State) error {
		pod, err := st.Pod(template.Namespace + "/" + template.Name)
		if err != nil {
			return err
		}
		if template.Spec.NodeName != "" && template.Spec.NodeName != pod.Node {
			return fmt.Errorf("the pod runs on %s and cannot move to %s; delete it first", pod.Node, template.Spec.NodeName)
		}
		node, err := st.Node(pod.Node)
		if err != nil {
			return err
		}
		return l.writeManifest(podManifest(pod, node, template))
	})
}

func (l *Lab) deleteOne(ctx context.Context, object *unstructured.Unstructured) error {
	return l.change(ctx, func(st *State) error {
		if object.GetKind() == "Pod" {
			if pod, err := st.Pod(objectID(object)); err == nil {
				return l.removePods(ctx, st, []Pod{pod})
			}
		}
		return l.removeManifest(objectManifest(object).file)
	})
}

// toPod returns nil for objects that are no pods.
func toPod(object *unstructured.Unstructured) (*corev1.Pod, error) {
	if object.GetKind() != "Pod" {
		return nil, nil
	}
	pod := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, pod, true); err != nil {
		return nil, err
	}
	return pod, nil
}
