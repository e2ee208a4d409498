package lab

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/kubernetes/ksr/manifests"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

type manifest struct {
	file   string
	object any
}

func manifestName(kind, namespace, name string) string {
	parts := []string{strings.ToLower(kind)}
	if namespace != "" {
		parts = append(parts, namespace)
	}
	return fileName(strings.Join(append(parts, name), "_")) + ".yaml"
}

// maxFileName leaves room for suffixes: Linux allows 255 bytes.
const maxFileName = 200

func fileName(text string) string {
	if len(text) <= maxFileName {
		return text
	}
	hash := fmt.Sprintf("~%x", sha256.Sum256([]byte(text)))[:17]
	return text[:maxFileName-len(hash)] + hash
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

// LabelNode changes labels of a node's object, such as its zone, in the syntax of kubectl label:
// KEY=VALUE sets a label, KEY- removes it.
func (l *Lab) LabelNode(ctx context.Context, name string, labels ...string) error {
	return l.change(ctx, func(st *State) error {
		if _, err := st.Node(name); err != nil {
			return err
		}
		if st.Calico {
			return fmt.Errorf("lab %s reads no Kubernetes objects: %w", l.Name(), ErrCalico)
		}
		file := manifestName("Node", "", name)
		data, err := os.ReadFile(l.Path("manifests", file))
		if err != nil {
			return err
		}
		node := &corev1.Node{}
		if err := yaml.Unmarshal(data, node); err != nil {
			return fmt.Errorf("manifest %s: %w", file, err)
		}
		if node.Labels == nil {
			node.Labels = map[string]string{}
		}
		for _, text := range labels {
			if err := changeLabel(node.Labels, text); err != nil {
				return err
			}
		}
		return l.writeManifest(manifest{file, node})
	})
}

func changeLabel(labels map[string]string, text string) error {
	key, value, set := strings.Cut(text, "=")
	if !set {
		var remove bool
		if key, remove = strings.CutSuffix(text, "-"); !remove {
			return nameError("label %q: write KEY=VALUE, or KEY- to remove it", text)
		}
	}
	if wrong := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)); len(wrong) > 0 {
		return nameError("label %q: %s", text, strings.Join(wrong, "; "))
	}
	if set {
		labels[key] = value
	} else {
		delete(labels, key)
	}
	return nil
}

// podManifest returns the object of a pod in its current state, as a kubelet would report it.
// template is the user's object, nil for a plain pod.
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

func (l *Lab) hasManifest(file string) bool {
	_, err := os.Stat(l.Path("manifests", file))
	return err == nil
}

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

// replaceManifest writes a user's object unless KSR has the same object. It returns a description
// of the change.
func (l *Lab) replaceManifest(m manifest) (done string, err error) {
	before, _ := os.ReadFile(l.Path("manifests", m.file))
	if data, err := yaml.Marshal(m.object); err == nil && bytes.Equal(before, data) {
		return "unchanged", nil
	}
	return "given to KSR", l.writeManifest(m)
}

func (l *Lab) removeManifest(file string) error {
	err := os.Remove(l.Path("manifests", file))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing manifest %s: %w", file, err)
	}
	return nil
}

// read is an object of a file, or the error in it.
type read struct {
	*unstructured.Unstructured
	// place is the position in the file, such as "document 2".
	place string
	wrong error
}

func (r read) String() string { return r.GetKind() + " " + objectID(r.Unstructured) }

// parseManifests reads the documents of a YAML or JSON stream and expands lists.
func parseManifests(data []byte) (objects []read) {
	number := 0
	for document, err := range manifests.Documents(data) {
		number++
		place := fmt.Sprintf("document %d", number)
		var content any
		if err == nil {
			err = kjson.UnmarshalCaseSensitivePreserveInts(document, &content)
		}
		switch {
		case err != nil:
			objects = append(objects, read{place: place, wrong: err})
		case content != nil:
			objects = append(objects, objectsOf(content, place)...)
		}
	}
	return objects
}

var errNoObject = errors.New("no Kubernetes object: it needs apiVersion, kind and metadata.name")

func objectsOf(content any, place string) (objects []read) {
	fields, ok := content.(map[string]any)
	if !ok {
		return []read{{place: place, wrong: errNoObject}}
	}
	object := &unstructured.Unstructured{Object: fields}
	if items, isList := fields["items"].([]any); isList && strings.HasSuffix(object.GetKind(), "List") {
		for i, item := range items {
			objects = append(objects, objectsOf(item, fmt.Sprintf("%s, item %d", place, i+1))...)
		}
		return objects
	}
	for _, path := range [][]string{{"kind"}, {"metadata", "name"}, {"metadata", "namespace"}} {
		value, _, _ := unstructured.NestedFieldNoCopy(fields, path...)
		switch value.(type) {
		case nil, string:
		default: // YAML parses y, n, on, off and numbers as other types
			return []read{{place: place, wrong: fmt.Errorf("%s: must be a string, not %v: put it in quotes", strings.Join(path, "."), value)}}
		}
	}
	if object.GetKind() == "" || object.GetName() == "" {
		return []read{{place: place, wrong: errNoObject}}
	}
	if object.GetNamespace() == "" && slices.Contains(namespaced, object.GetKind()) {
		object.SetNamespace(DefaultNamespace)
	}
	return []read{{object, place, nil}}
}

// stored returns the objects of a kind that the lab has passed to KSR. It skips unreadable files,
// which KSR reports.
func stored[T any](l *Lab, kind string) ([]T, error) {
	files, err := filepath.Glob(l.Path("manifests", strings.ToLower(kind)+"_*.yaml"))
	if err != nil {
		return nil, err
	}
	var objects []T
	for _, file := range files {
		var object T
		if data, err := os.ReadFile(file); err == nil && yaml.Unmarshal(data, &object) == nil {
			objects = append(objects, object)
		}
	}
	return objects, nil
}
