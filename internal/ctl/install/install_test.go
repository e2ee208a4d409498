package install

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

func render(t *testing.T, m Manifests) map[string]*unstructured.Unstructured {
	t.Helper()
	objects, err := m.objects(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		found[o.GetKind()+" "+o.GetName()] = o
	}
	return found
}

func podOf(t *testing.T, o *unstructured.Unstructured) *corev1.PodSpec {
	t.Helper()
	fields, found, err := unstructured.NestedMap(o.Object, "spec", "template", "spec")
	spec := &corev1.PodSpec{}
	if err == nil && found {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(fields, spec)
	}
	if err != nil || !found {
		t.Fatalf("%s has no pods: %v", name(o), err)
	}
	return spec
}

func hash(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	text, _, _ := unstructured.NestedString(o.Object, "spec", "template", "metadata", "annotations", configAnnotation)
	if len(text) != 64 {
		t.Errorf("%s: the annotation is %q", name(o), text)
	}
	return text
}

func TestManifestsFollowTheOptions(t *testing.T) {
	plain := render(t, Manifests{})
	if plain["DaemonSet contiv-vpp"] != nil || plain["StatefulSet contiv-etcd"] == nil {
		t.Error("without options, there is VPP or no etcd")
	}
	changed := render(t, Manifests{VPP: true, Image: "example.com/contiv:1", VPPImage: "example.com/vpp:1", Config: map[string]string{"contiv.conf": "mtuSize: 1400\n"}})
	images := map[string]bool{}
	for _, name := range []string{"StatefulSet contiv-etcd", "DaemonSet contiv-agent", "DaemonSet contiv-ksr", "DaemonSet contiv-vpp"} {
		pod := podOf(t, changed[name])
		for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
			images[c.Image] = true
		}
	}
	if len(images) != 2 || !images["example.com/contiv:1"] || !images["example.com/vpp:1"] {
		t.Errorf("images: %v", images)
	}
	if text, _, _ := unstructured.NestedString(changed["ConfigMap contiv-config"].Object, "data", "contiv.conf"); text != "mtuSize: 1400\n" {
		t.Errorf("contiv.conf is %q", text)
	}
	if hash(t, plain["DaemonSet contiv-agent"]) == hash(t, changed["DaemonSet contiv-agent"]) {
		t.Error("agents are not replaced when contiv.conf changes")
	}
	onlyVPP := render(t, Manifests{VPP: true, Config: map[string]string{"vpp.conf": "workers: 3\n"}})
	if hash(t, plain["DaemonSet contiv-agent"]) != hash(t, onlyVPP["DaemonSet contiv-agent"]) || hash(t, changed["DaemonSet contiv-vpp"]) == hash(t, onlyVPP["DaemonSet contiv-vpp"]) {
		t.Error("vpp.conf is not what replaces VPP, and VPP only")
	}
	for name, o := range render(t, Manifests{WithoutEtcd: true}) {
		if o.GetName() == "contiv-etcd" {
			t.Errorf("without etcd, there is %s", name)
		}
	}
}

func TestConfigurationIsChecked(t *testing.T) {
	for _, c := range []struct{ name, text, reason string }{
		{"contiv.conf", "mtuSise: 1400", "mtuSize"},
		{"controller.conf", "delayRetry: soon", "delayRetry"},
		{"service.conf", "services: iptables", "kube-proxy"},
		{"etcd.conf", "endpoint: x", "endpoints"},
		{"contiv.yaml", "", "contiv.conf"},
	} {
		if err := CheckConfig(c.name, c.text); err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s %q: %v", c.name, c.text, err)
		}
	}
	m := Manifests{Config: map[string]string{"vpp.conf": "workers: 1"}}
	if _, err := m.objects(t.Context()); err == nil || !strings.Contains(err.Error(), "--vpp") {
		t.Errorf("vpp.conf without VPP: %v", err)
	}
}

func TestPostRendererSeesAllObjects(t *testing.T) {
	program := filepath.Join(t.TempDir(), "rename")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nsed s/contiv-ksr/other-ksr/g\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	m := Manifests{PostRenderer: program}
	objects := render(t, m)
	if objects["DaemonSet other-ksr"] == nil || objects["ClusterRole other-ksr"] == nil || objects["DaemonSet contiv-ksr"] != nil {
		t.Errorf("objects: %v", objects)
	}
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := m.objects(t.Context()); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("a program that fails: %v", err)
	}
}

// A node's cleaning pod has the agent's rights and directories.
func TestCleanersAreAgentsWithOtherCommands(t *testing.T) {
	objects := render(t, Manifests{VPP: true})
	agent := podOf(t, objects["DaemonSet contiv-agent"])
	spec := cleaner(agent, false)
	if err := cleanEtcd(spec, podOf(t, objects["StatefulSet contiv-etcd"])); err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		commands = append(commands, strings.Join(slices.Concat(c.Command, c.Args), " "))
		for _, m := range c.VolumeMounts {
			if !slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
				t.Errorf("%s mounts %s, which the pod lacks", c.Name, m.Name)
			}
		}
	}
	want := []string{"contiv-cni uninstall", "rm -rf /var/etcd/contiv-data", "sh -ec contiv-agent uninstall\nrm -rf /var/bolt/* /var/run/contiv/*\n"}
	if !slices.Equal(commands, want) {
		t.Errorf("commands: %q", commands)
	}
	if c := spec.InitContainers[len(spec.InitContainers)-1].SecurityContext; *c.RunAsUser != 0 || !slices.Contains(c.Capabilities.Add, "DAC_OVERRIDE") {
		t.Errorf("data of another user, in a directory of root, cannot be removed with %+v", c)
	}
	if got := spec.Containers[0].SecurityContext.Capabilities; !slices.Equal(got.Add, agent.Containers[0].SecurityContext.Capabilities.Add) {
		t.Errorf("it may do %v", got.Add)
	}
	if spec.ServiceAccountName != "default" || spec.Affinity != nil {
		t.Error("it needs an account, or a node, that may be gone")
	}
	if kept := cleaner(agent, true).Containers[0].Args[0]; strings.Contains(kept, "rm ") {
		t.Errorf("state is not kept: %s", kept)
	}
	if vpp := cleaner(podOf(t, objects["DaemonSet contiv-vpp"]), true).Containers[0].Args[0]; vpp != "" {
		t.Errorf("after VPP: %s", vpp)
	}
}

func TestProblemsSayWhatToDo(t *testing.T) {
	waiting := func(reason string) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "agent", Image: "contiv:1",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "because"}}}}}
	}
	for _, c := range []struct {
		app    string
		status corev1.PodStatus
		want   string
	}{
		{"contiv-agent", waiting("ImagePullBackOff"), "make images"},
		{"contiv-agent", waiting("CrashLoopBackOff"), "logs pod -c agent --previous"},
		{"contiv-agent", waiting("CreateContainerConfigError"), "because"},
		{"contiv-agent", waiting("ContainerCreating"), ""},
		{"contiv-etcd", corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}}, "kubectl label node"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: Namespace, Labels: map[string]string{"app": c.app}}, Status: c.status}
		if got := problem(pod); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%v: %q", c.status, got)
		}
	}
}
