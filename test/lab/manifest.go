package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// manifest is a Kubernetes object and the file that holds it.
type manifest struct {
	file   string
	object any
}

// manifestName is the file of an object; objects of no namespace have "".
func manifestName(kind, namespace, name string) string {
	parts := []string{strings.ToLower(kind)}
	if namespace != "" {
		parts = append(parts, namespace)
	}
	return strings.Join(append(parts, name), "_") + ".yaml"
}

func namespaceManifest(name string) manifest {
	return manifest{manifestName("Namespace", "", name), &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}},
	}}
}

func nodeManifest(n Node) manifest {
	return manifest{manifestName("Node", "", n.Name), &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{corev1.LabelHostname: n.Name}},
		Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: n.Address.Addr().String()},
				{Type: corev1.NodeHostName, Address: n.Name},
			},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}}
}

// podManifest is the object of a pod in its present state, which a kubelet
// would report. template holds what the user wrote; nil for a plain pod.
func podManifest(p Pod, node Node, template *corev1.Pod) manifest {
	object := &corev1.Pod{}
	if template != nil {
		object = template.DeepCopy()
	} else {
		object.Labels = map[string]string{"app": p.Name}
		object.Spec.Containers = []corev1.Container{{Name: "sandbox", Image: "contiv-lab"}}
	}
	object.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	object.Name, object.Namespace, object.UID = p.Name, p.Namespace, types.UID(p.UID)
	object.Spec.NodeName = p.Node
	object.Status = corev1.PodStatus{Phase: corev1.PodPending, HostIP: node.Address.Addr().String()}
	if p.Address.IsValid() {
		object.Status.Phase = corev1.PodRunning
		object.Status.PodIP = p.Address.String()
		for _, address := range p.Addresses() {
			object.Status.PodIPs = append(object.Status.PodIPs, corev1.PodIP{IP: address.String()})
		}
		object.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return manifest{manifestName("Pod", p.Namespace, p.Name), object}
}

// writeManifest gives the object to KSR.
func (l *Lab) writeManifest(m manifest) error {
	data, err := yaml.Marshal(m.object)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", m.file, err)
	}
	if err := writeFile(l.dir, filepath.Join("manifests", m.file), data); err != nil {
		return fmt.Errorf("writing manifest %s: %w", m.file, err)
	}
	return nil
}

func (l *Lab) removeManifest(file string) error {
	err := os.Remove(l.Path("manifests", file))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing manifest %s: %w", file, err)
	}
	return nil
}

// parseManifests splits the documents of a YAML or JSON stream; lists are
// taken apart.
func parseManifests(data []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for i := 1; ; i++ {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i, err)
		}
		if len(object.Object) == 0 {
			continue
		}
		items := []*unstructured.Unstructured{object}
		if object.IsList() {
			list, err := object.ToList()
			if err != nil {
				return nil, fmt.Errorf("document %d: %w", i, err)
			}
			items = nil
			for _, item := range list.Items {
				items = append(items, &item)
			}
		}
		for _, item := range items {
			if item.GetKind() == "" || item.GetName() == "" {
				return nil, fmt.Errorf("document %d is no Kubernetes object: it needs kind and metadata.name", i)
			}
			objects = append(objects, item)
		}
	}
}
