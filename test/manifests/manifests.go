// Package manifests strictly reads the manifests in deploy for tests that compare them with each
// other and with the programs that they run.
package manifests

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Dir is the directory of the manifests: deploy, in the first parent of the test's directory that
// has one. With -trimpath, a binary does not know its source directory.
func Dir() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if deploy := filepath.Join(dir, "deploy"); isDir(deploy) {
			return deploy
		}
	}
	panic("no directory deploy above the working directory")
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// kinds maps the kinds in the manifests to their types.
var kinds = map[string]func() metav1.Object{
	"ConfigMap":          func() metav1.Object { return &corev1.ConfigMap{} },
	"ServiceAccount":     func() metav1.Object { return &corev1.ServiceAccount{} },
	"Service":            func() metav1.Object { return &corev1.Service{} },
	"StatefulSet":        func() metav1.Object { return &appsv1.StatefulSet{} },
	"DaemonSet":          func() metav1.Object { return &appsv1.DaemonSet{} },
	"ClusterRole":        func() metav1.Object { return &rbacv1.ClusterRole{} },
	"ClusterRoleBinding": func() metav1.Object { return &rbacv1.ClusterRoleBinding{} },
	"Role":               func() metav1.Object { return &rbacv1.Role{} },
	"RoleBinding":        func() metav1.Object { return &rbacv1.RoleBinding{} },

	"CustomResourceDefinition": func() metav1.Object { return &unstructured.Unstructured{} },
}

// Objects returns all objects of the manifests, by kind and name: "DaemonSet contiv-agent". An
// unknown field or a duplicate object fails the test.
func Objects(t testing.TB) map[string]metav1.Object {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(Dir(), "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests in %s: %v", Dir(), err)
	}
	texts := map[string][]byte{}
	for _, file := range files {
		if texts[file], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	return Parse(t, texts)
}

// Parse is Objects for other manifests, by file name.
func Parse(t testing.TB, files map[string][]byte) map[string]metav1.Object {
	t.Helper()
	objects := map[string]metav1.Object{}
	for file, data := range files {
		for reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
			document, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			var meta metav1.TypeMeta
			if err == nil {
				err = yaml.Unmarshal(document, &meta)
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			newObject := kinds[meta.Kind]
			if newObject == nil {
				t.Fatalf("%s: unknown kind %q", file, meta.Kind)
			}
			object := newObject()
			if err := yaml.UnmarshalStrict(document, object); err != nil {
				t.Errorf("%s, %s: %v", file, meta.Kind, err)
			}
			name := meta.Kind + " " + object.GetName()
			if objects[name] != nil {
				t.Errorf("%s: %s is there twice", file, name)
			}
			objects[name] = object
		}
	}
	return objects
}

// Pod returns the pod template of a StatefulSet or DaemonSet.
func Pod(object metav1.Object) (template corev1.PodTemplateSpec, ok bool) {
	switch o := object.(type) {
	case *appsv1.StatefulSet:
		return o.Spec.Template, true
	case *appsv1.DaemonSet:
		return o.Spec.Template, true
	}
	return template, false
}

// Program is a program that a container runs.
type Program struct {
	Object    string // such as "DaemonSet contiv-agent"
	Pod       corev1.PodSpec
	Container corev1.Container
	// Args follow the program's name; of a shell script, the words that begin with "--".
	Args []string
}

// Programs returns the containers that run a program, directly or at the end of a script.
func Programs(t testing.TB, name string) (found []Program) {
	t.Helper()
	for object, o := range Objects(t) {
		template, _ := Pod(o)
		for _, c := range template.Spec.Containers {
			words := append(append([]string{}, c.Command...), c.Args...)
			p := Program{Object: object, Pod: template.Spec, Container: c}
			switch {
			case len(words) > 0 && words[0] == name:
				p.Args = words[1:]
			case len(c.Args) > 0 && len(c.Command) > 0 && c.Command[0] == "sh" && strings.Contains(c.Args[0]+" ", "exec "+name+" "):
				for word := range strings.FieldsSeq(c.Args[0]) {
					if strings.HasPrefix(word, "--") && word != "--" {
						p.Args = append(p.Args, word)
					}
				}
			default:
				continue
			}
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		t.Fatalf("no container runs %s", name)
	}
	return found
}

// Env returns the container's environment variables with values in the manifest.
func (p Program) Env() map[string]string {
	values := map[string]string{}
	for _, v := range p.Container.Env {
		if v.ValueFrom == nil {
			values[v.Name] = v.Value
		}
	}
	return values
}

// Probes returns the probes of a container.
func (p Program) Probes() (probes []*corev1.Probe) {
	for _, probe := range []*corev1.Probe{p.Container.ReadinessProbe, p.Container.LivenessProbe, p.Container.StartupProbe} {
		if probe != nil {
			probes = append(probes, probe)
		}
	}
	return probes
}

// Config returns a file of the ConfigMaps, which must be in exactly one.
func Config(t testing.TB, file string) string {
	t.Helper()
	var texts []string
	for _, o := range Objects(t) {
		if m, ok := o.(*corev1.ConfigMap); ok && m.Data[file] != "" {
			texts = append(texts, m.Data[file])
		}
	}
	if len(texts) != 1 {
		t.Fatalf("%d ConfigMaps have %s, not one", len(texts), file)
	}
	return texts[0]
}
