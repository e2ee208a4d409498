package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"

	"github.com/contiv/contiv/test/lab/apiserver"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// namespaced lists the kinds whose objects default to the namespace "default".
var namespaced = []string{"ConfigMap", "Endpoints", "EndpointSlice", "NetworkPolicy", "Pod", "Service"}

// ErrNotFound is wrapped by errors about missing objects of a deletion.
var ErrNotFound = errors.New("not found")

// Apply reads Kubernetes objects from a file, or from standard input if the file is "-", and passes
// them to KSR. If any object is invalid, none is applied. Apply creates pods that name a node of
// the lab and updates the labels and annotations of existing pods. Services get cluster IPs and
// node ports; those with a selector also get EndpointSlices. The result describes each object in
// one line.
func (l *Lab) Apply(ctx context.Context, file string) ([]string, error) {
	objects, err := l.readManifests(file)
	if err != nil {
		return nil, err
	}
	st, err := l.State()
	if err != nil {
		return nil, err
	}
	networks, err := l.serviceNetworks(st)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, object := range objects {
		errs = append(errs, l.check(file, object, networks)...)
	}
	if errors.Join(errs...) == nil {
		errs = l.conflicts(file, st, objects, networks)
	}
	if err := errors.Join(errs...); err != nil {
		if len(objects) > 1 {
			err = fmt.Errorf("%w\nnothing was applied", err)
		}
		return nil, err
	}
	var done []string
	for _, object := range objects {
		what, err := l.applyOne(ctx, object.Unstructured)
		if err != nil {
			return done, fmt.Errorf("%s: %v: %w", file, object, err)
		}
		done = append(done, fmt.Sprintf("%v %s", object, what))
	}
	return done, nil
}

// Delete removes the objects that the file names, pods included. If some do not exist, it deletes
// the remaining ones and returns an error that wraps ErrNotFound.
func (l *Lab) Delete(ctx context.Context, file string) ([]string, error) {
	objects, err := l.readManifests(file)
	if err != nil {
		return nil, err
	}
	var done []string
	var missing []error
	for _, object := range objects {
		if object.wrong != nil {
			missing = append(missing, fmt.Errorf("%s: %s: %w", file, object.place, object.wrong))
		}
	}
	if err := errors.Join(missing...); err != nil {
		return nil, err
	}
	for _, object := range slices.Backward(objects) {
		err := l.deleteOne(ctx, object.Unstructured)
		switch {
		case errors.Is(err, ErrNotFound):
			missing = append(missing, fmt.Errorf("%s: %v: %w", file, object, err))
		case err != nil:
			return done, fmt.Errorf("%s: %v: %w", file, object, err)
		default:
			done = append(done, fmt.Sprintf("%v deleted", object))
		}
	}
	return done, errors.Join(missing...)
}

func (l *Lab) readManifests(file string) ([]read, error) {
	st, err := l.State()
	if err != nil {
		return nil, err
	}
	if st.Calico {
		return nil, fmt.Errorf("lab %s has no Kubernetes objects: %w: use %s and node", l.Name(), ErrCalico, Command(l.Name(), "pod"))
	}
	data, err := readFile(file)
	if err != nil {
		return nil, err
	}
	objects := parseManifests(data)
	if len(objects) == 0 {
		return nil, fmt.Errorf("%s has no Kubernetes object", file)
	}
	return objects, nil
}

func (l *Lab) check(file string, object read, networks []netip.Prefix) []error {
	switch {
	case object.wrong != nil:
		return []error{fmt.Errorf("%s: %s: %w", file, object.place, object.wrong)}
	case object.GetKind() == "Node":
		return []error{fmt.Errorf("%s: %s: the lab itself writes the objects of its nodes; %s adds one, %s gives it labels", file, object.place, Command(l.Name(), "node add "+object.GetName()), Command(l.Name(), "node label"))}
	}
	errs := apiserver.Check(object.Unstructured, networks)
	for i, err := range errs {
		errs[i] = fmt.Errorf("%s: %s: %v: %w", file, object.place, object, err)
	}
	return errs
}

// conflicts returns conflicts of the objects with each other and with the objects of the lab: names
// of pods, nodes, cluster IPs and node ports.
func (l *Lab) conflicts(file string, st *State, objects []read, networks []netip.Prefix) (errs []error) {
	services, err := stored[corev1.Service](l, "Service")
	if err != nil {
		return []error{err}
	}
	for _, object := range objects {
		err := st.podConflict(object.Unstructured)
		if object.GetKind() == "Service" {
			services, err = withService(services, object.Unstructured, networks)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %v: %w", file, object.place, object, err))
		}
	}
	return errs
}

func (s *State) podConflict(object *unstructured.Unstructured) error {
	pod, err := toPod(object)
	if err != nil || pod == nil || pod.Spec.NodeName == "" {
		return err
	}
	if known, err := s.Pod(pod.Namespace + "/" + pod.Name); err == nil {
		if pod.Spec.NodeName != known.Node {
			return fmt.Errorf("the pod runs on %s and cannot move to %s; delete it first", known.Node, pod.Spec.NodeName)
		}
		return nil
	}
	if pod.Spec.HostNetwork {
		return nil
	}
	if _, err := s.Node(pod.Spec.NodeName); err != nil {
		return err
	}
	return s.nameable("pod", pod.Name)
}

func withService(services []corev1.Service, object *unstructured.Unstructured, networks []netip.Prefix) ([]corev1.Service, error) {
	service := corev1.Service{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &service); err != nil {
		return services, err
	}
	others, previous := withoutService(services, &service)
	if err := apiserver.Allocate(&service, previous, others, networks); err != nil {
		return services, err
	}
	return append(others, service), nil
}

func readFile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(os.Stdin)
	}
	if name == "" {
		return nil, errors.New("the name of the file of manifests is empty")
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory: give a file of manifests", name)
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
		return l.changePod(ctx, pod)
	case pod != nil && pod.Spec.NodeName != "" && !pod.Spec.HostNetwork:
		added, err := l.AddPod(ctx, PodSpec{Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, Template: pod})
		return fmt.Sprintf("runs on %s with address %s", added.Node, added.Address), err
	}
	if object.GetKind() == "Service" {
		return l.applyService(ctx, object)
	}
	var done string
	err = l.change(ctx, func(*State) (err error) { done, err = l.replaceManifest(objectManifest(object)); return err })
	return done, err
}

func (l *Lab) changePod(ctx context.Context, template *corev1.Pod) (done string, err error) {
	err = l.change(ctx, func(st *State) error {
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
		done, err = l.replaceManifest(podManifest(pod, node, template))
		return err
	})
	return done, err
}

func (l *Lab) deleteOne(ctx context.Context, object *unstructured.Unstructured) error {
	return l.change(ctx, func(st *State) error {
		if object.GetKind() == "Pod" {
			if pod, err := st.Pod(objectID(object)); err == nil {
				return l.removePods(ctx, st, []Pod{pod})
			}
		}
		file := objectManifest(object).file
		if _, err := os.Stat(l.Path("manifests", file)); errors.Is(err, os.ErrNotExist) {
			return ErrNotFound
		}
		return l.removeManifest(file)
	})
}

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
