package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/calico/kubernetes"
	"github.com/contiv/contiv/test/manifests"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// manifest decodes the manifest strictly.
func manifest(t *testing.T) (config corev1.ConfigMap, role rbacv1.ClusterRole, set appsv1.DaemonSet) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(manifests.Dir(), "calico", "contiv-calico-routes.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	into := map[string]any{"ConfigMap": &config, "ClusterRole": &role, "DaemonSet": &set,
		"ServiceAccount": &corev1.ServiceAccount{}, "ClusterRoleBinding": &rbacv1.ClusterRoleBinding{}}
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return config, role, set
		}
		var kind struct{ Kind string }
		if err == nil {
			err = yaml.Unmarshal(document, &kind)
		}
		if err == nil {
			err = yaml.UnmarshalStrict(document, into[kind.Kind])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The manifest runs this program with existing flags, on the host's network.
func TestManifest(t *testing.T) {
	config, role, set := manifest(t)
	pod := set.Spec.Template.Spec
	c := pod.Containers[0]
	_, flags, ok := strings.Cut(c.Args[0], "exec contiv-calico-routes ")
	if !ok || !pod.HostNetwork {
		t.Fatalf("it runs %q on the host's network: %v", c.Args[0], pod.HostNetwork)
	}
	dir := t.TempDir()
	for name, content := range config.Data {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mounted := ""
	for _, m := range c.VolumeMounts {
		if m.Name == "config" {
			mounted = m.MountPath
		}
	}
	flags = strings.ReplaceAll(strings.ReplaceAll(flags, path.Clean(mounted), dir), "$NODE_NAME", "w1")
	// Options in comments of the file exist too.
	for _, name := range regexp.MustCompile(`(?m)^# ([a-z-]+): https`).FindAllStringSubmatch(config.Data["contiv-calico-routes.conf"], -1) {
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		new(options).register(f)
		if f.Lookup(name[1]) == nil {
			t.Errorf("%s is no option", name[1])
		}
	}
	o, err := parse(append(strings.Fields(flags), "--address", "192.168.16.1/24")...)
	if err != nil || o.datastore != kubernetesDatastore || o.uplink != "eth0" || o.hostname != "w1" {
		t.Errorf("%v: %+v", err, o)
	}
	for _, needed := range []struct {
		resource schema.GroupVersionResource
		verbs    []string
	}{
		{kubernetes.Blocks, []string{"list", "watch"}}, {kubernetes.Affinities, []string{"list", "watch"}},
		{kubernetes.Nodes, []string{"get", "list", "watch", "patch"}},
	} {
		for _, verb := range needed.verbs {
			if !slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
				return slices.Contains(r.APIGroups, needed.resource.Group) && slices.Contains(r.Resources, needed.resource.Resource) && slices.Contains(r.Verbs, verb)
			}) {
				t.Errorf("it may not %s %s", verb, needed.resource.Resource)
			}
		}
	}
	if agent := manifests.Programs(t, "contiv-agent"); agent[0].Container.Image != c.Image {
		t.Errorf("image %s is not the agent's, %s", c.Image, agent[0].Container.Image)
	}
}
