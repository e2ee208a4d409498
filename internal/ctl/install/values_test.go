package install

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/ctl/kube"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
)

// contivctl's own renderer gives the same result as Helm: deploy/*.yaml.
func TestChartIsRenderedAsHelmDoes(t *testing.T) {
	rendered, err := Render("vpp: {enabled: true}")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../../deploy/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("manifests: %v %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(rendered[filepath.Base(file)]); got != string(text) {
			t.Errorf("%s is rendered as\n%s", file, got)
		}
	}
	if len(rendered) != len(files) {
		t.Errorf("rendered: %v", slices.Sorted(maps.Keys(rendered)))
	}
}

func TestValuesAreChecked(t *testing.T) {
	for text, reason := range map[string]string{
		"etcd: {snapshot: {every: 24h}}":              `the chart has no value etcd.snapshot: did you mean "snapshots"?`,
		"etcd: {snapshots: {every: daily}}":           "etcd.snapshots.every",
		"etcd: {members: [{node: a, ip: here}]}":      "etcd.members[0].ip",
		"etcd: {service: {nodePort: 80}}":             "out of range",
		"etcd: {quotaMiB: 16.5}":                      "type integer",
		"logs: {defaultLevel: verbose}":               "one of",
		"image: contiv:1":                             "type object",
		"etcd: {options: {dialTimeout: 5s}}":          "etcd.options.dialTimeout",
		"controller: {periodicHealingInterval: true}": "string or integer",
	} {
		values, err := parseValues([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := checkValues(values); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v, want %s", text, err, reason)
		}
	}
	values, err := parseValues([]byte("{etcd: {snapshots: {every: 24h}, nodeSelector: {any/label: ''}}, controller: {delayRetry: 2s}, vpp: null, contiv: {mtuSize: 1400}}"))
	if err == nil {
		err = checkValues(values)
	}
	if err != nil {
		t.Error(err)
	}
}

// installed returns a cluster with the objects of m.
func installed(t *testing.T, m Manifests) *Cluster {
	t.Helper()
	objects := []runtime.Object{&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: Namespace}}}
	for _, o := range render(t, m) {
		objects = append(objects, o)
	}
	return &Cluster{client: &kube.Client{Interface: fake.NewSimpleDynamicClient(scheme.Scheme, objects...)}, out: io.Discard}
}

func values(t *testing.T, text string) map[string]any {
	t.Helper()
	v, err := parseValues([]byte(text))
	if err == nil {
		err = checkValues(v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

const chosen = `
etcd:
  snapshots: {every: 24h, dir: /backups}
  members: [{node: cp1, ip: 192.0.2.1}, {node: cp2, ip: 192.0.2.2}, {node: cp3, ip: 192.0.2.3}]
  dataDir: /data/etcd/contiv
cni: {binDir: /usr/libexec/cni}
logs: {defaultLevel: DEBUG}
imagePullSecrets: [{name: pull}]
ksr: {resources: {limits: {memory: 1Gi}}}
contiv: {mtuSize: 1400, ipamConfig: {podSubnetCIDR: 10.9.0.0/16}}`

// An upgrade changes only what it names.
func TestUpgradesKeepWhatWasChosen(t *testing.T) {
	first := Manifests{Values: values(t, chosen), VPP: true, Config: map[string]string{"service.conf": "# by hand\nservices: vswitch\n"}}
	c := installed(t, first)
	var again Manifests
	if err := c.keep(t.Context(), &again); err != nil {
		t.Fatal(err)
	}
	before, after := render(t, first), render(t, again)
	if len(before) != len(after) {
		t.Errorf("%d objects are %d now", len(before), len(after))
	}
	for name, object := range before {
		was, _ := object.MarshalJSON()
		is, _ := after[name].MarshalJSON()
		if string(was) != string(is) {
			t.Errorf("%s was\n%s\nand is\n%s", name, was, is)
		}
	}

	changed := Manifests{Values: values(t, "{etcd: {snapshots: {every: 12h}}, contiv: {mtuSize: 1300}}")}
	if err := c.keep(t.Context(), &changed); err != nil {
		t.Fatal(err)
	}
	objects := render(t, changed)
	args := strings.Join(podOf(t, objects["StatefulSet contiv-etcd"]).Containers[0].Args, " ")
	for _, want := range []string{"--snapshot-every=12h", "--snapshot-dir=/backups", "--member=cp3=https://192.0.2.3:12380", "--data-dir=/data/etcd/contiv"} {
		if !strings.Contains(args, want) {
			t.Errorf("etcd lacks %s: %s", want, args)
		}
	}
	data := objects["ConfigMap contiv-config"].Object["data"].(map[string]any)
	if conf := data["contiv.conf"].(string); !strings.Contains(conf, "mtuSize: 1300\n") || !strings.Contains(conf, "podSubnetCIDR: 10.9.0.0/16\n") {
		t.Errorf("contiv.conf is %s", conf)
	}
	if conf := data["service.conf"]; conf != "# by hand\nservices: vswitch\n" {
		t.Errorf("service.conf is %s", conf)
	}
}

// A dry run prints the upgrade's objects and applies nothing.
func TestUpgradeDryRun(t *testing.T) {
	c := installed(t, Manifests{Image: "registry.example.com/contiv:v1", Values: values(t, chosen)})
	before, err := c.configMap(t.Context(), "contiv-config")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := c.PrintUpgrade(t.Context(), &out, Manifests{Values: values(t, "{contiv: {mtuSize: 1300}}")}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"registry.example.com/contiv:v1", "mtuSize: 1300", "podSubnetCIDR: 10.9.0.0/16"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not printed", want)
		}
	}
	if after, err := c.configMap(t.Context(), "contiv-config"); err != nil || !maps.Equal(before, after) {
		t.Errorf("the cluster has %v now, %v", after, err)
	}
	if err := c.PrintUpgrade(t.Context(), &out, Manifests{Config: map[string]string{"contiv.conf": "ipamConfig: {podSubnetCIDR: 10.1.0.0/33}"}}); err == nil {
		t.Error("a mistake in a named file passes")
	}
}

func TestUpgradesThatDoNotKnowWhatWasChosen(t *testing.T) {
	c := installed(t, Manifests{Values: values(t, chosen)})
	configMaps := c.ours(kube.ConfigMaps)
	stored, err := configMaps.Get(t.Context(), valuesMap, metav1.GetOptions{})
	if err == nil {
		err = unstructured.SetNestedField(stored.Object, "etcd: {shards: 3}\n", "data", valuesKey)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := configMaps.Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.keep(t.Context(), &Manifests{}); err == nil || !strings.Contains(err.Error(), "etcd.shards") {
		t.Errorf("values of a newer version: %v", err)
	}
	if err := configMaps.Delete(t.Context(), valuesMap, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.keep(t.Context(), &Manifests{}); err == nil || !strings.Contains(err.Error(), "etcd.members") {
		t.Errorf("members of an older version: %v", err)
	}
	if err := c.keep(t.Context(), &Manifests{Values: values(t, chosen)}); err != nil {
		t.Errorf("members that are named: %v", err)
	}
	if err := c.keep(t.Context(), &Manifests{Files: os.DirFS("../../../deploy")}); err == nil || !strings.Contains(err.Error(), "--manifests") {
		t.Errorf("members, and manifests of one: %v", err)
	}
}

// The plain-text etcd.conf of the first versions is replaced; one for an external etcd stays.
func TestUpgradeReplacesPlainTextEtcdConf(t *testing.T) {
	const plain = "endpoints: [\"http://${HOST_IP}:32379\"]\n"
	ours := installed(t, Manifests{Config: map[string]string{"etcd.conf": plain, "contiv.conf": "mtuSize: 1300\n"}})
	var m Manifests
	if err := ours.keep(t.Context(), &m); err != nil {
		t.Fatal(err)
	}
	if m.Config["etcd.conf"] != "" || m.Config["contiv.conf"] != "mtuSize: 1300\n" {
		t.Errorf("kept: %v", m.Config)
	}
	theirs := installed(t, Manifests{WithoutEtcd: true, Config: map[string]string{"etcd.conf": plain}})
	m = Manifests{}
	if err := theirs.keep(t.Context(), &m); err != nil {
		t.Fatal(err)
	}
	if m.Config["etcd.conf"] != plain {
		t.Errorf("kept of who has an etcd of their own: %v", m.Config)
	}
}
