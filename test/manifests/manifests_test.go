package manifests

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/lib/config"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	service "github.com/contiv/contiv/internal/plugins/service/config"
	"github.com/contiv/contiv/internal/vswitch/vpp/startup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// The two kinds of nodes differ in VPP only.
func TestNodesWithVPPAreLikeOthers(t *testing.T) {
	objects := Objects(t)
	pod := func(name string) corev1.PodSpec {
		template, ok := Pod(objects[name])
		if !ok {
			t.Fatalf("no %s", name)
		}
		return template.Spec
	}
	kernel, vpp := pod("DaemonSet contiv-agent"), pod("DaemonSet contiv-vpp")
	same := func(what string, kernel, vpp any) {
		t.Helper()
		if !reflect.DeepEqual(kernel, vpp) {
			t.Errorf("%s: %+v, with VPP %+v", what, kernel, vpp)
		}
	}
	agent, vppAgent := kernel.Containers[0], vpp.Containers[0]
	same("environment", agent.Env, vppAgent.Env)
	same("readiness", agent.ReadinessProbe, vppAgent.ReadinessProbe)
	same("liveness", agent.LivenessProbe.ProbeHandler, vppAgent.LivenessProbe.ProbeHandler)
	for _, mount := range agent.VolumeMounts {
		if !slices.ContainsFunc(vppAgent.VolumeMounts, func(m corev1.VolumeMount) bool { return reflect.DeepEqual(m, mount) }) {
			t.Errorf("no mount %v with VPP", mount)
		}
	}
	volumes := map[string]corev1.VolumeSource{}
	for _, v := range vpp.Volumes {
		volumes[v.Name] = v.VolumeSource
	}
	for _, v := range kernel.Volumes {
		if v.Name == "config" { // and VPP's
			if sources := volumes["config"].Projected.Sources; sources[0].ConfigMap.Name != v.ConfigMap.Name {
				t.Errorf("with VPP, the configuration is %v", sources)
			}
			continue
		}
		same("volume "+v.Name, v.VolumeSource, volumes[v.Name])
	}
	same("credentials", kernel.Containers[1], vpp.Containers[1])
	cni := kernel.Containers[2]
	cni.Image = vpp.Containers[2].Image
	same("CNI", cni, vpp.Containers[2])
	// Fields that the comparison above excludes.
	kernel.Containers, vpp.Containers, kernel.Volumes, vpp.Volumes = nil, nil, nil, nil
	kernel.NodeSelector, vpp.NodeSelector, kernel.Affinity = nil, nil, nil
	kernel.TerminationGracePeriodSeconds, vpp.TerminationGracePeriodSeconds = nil, nil
	same("the rest", kernel, vpp)
}

// Each node has one agent, independent of its labels.
func TestEachNodeHasOneAgent(t *testing.T) {
	objects := Objects(t)
	for _, node := range []labels.Set{
		{"kubernetes.io/os": "linux"},
		{"kubernetes.io/os": "linux", "contivpp.io/vswitch": "vpp"},
		{"kubernetes.io/os": "linux", "contivpp.io/vswitch": "kernel"},
	} {
		var agents []string
		for _, name := range []string{"DaemonSet contiv-agent", "DaemonSet contiv-vpp"} {
			template, _ := Pod(objects[name])
			if runsOn(t, template.Spec, node) {
				agents = append(agents, name)
			}
		}
		if len(agents) != 1 {
			t.Errorf("a node with %v has %v", node, agents)
		}
	}
}

// runsOn reports whether a pod's selector and required affinity match a node.
func runsOn(t *testing.T, pod corev1.PodSpec, node labels.Set) bool {
	t.Helper()
	matches := labels.SelectorFromSet(pod.NodeSelector).Matches(node)
	if pod.Affinity != nil {
		for _, term := range pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			var selector metav1.LabelSelector
			for _, e := range term.MatchExpressions {
				selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{Key: e.Key, Operator: metav1.LabelSelectorOperator(e.Operator), Values: e.Values})
			}
			s, err := metav1.LabelSelectorAsSelector(&selector)
			if err != nil {
				t.Fatal(err)
			}
			matches = matches && s.Matches(node)
		}
	}
	return matches
}

func TestWorkloadsSelectTheirPodsAndMountWhatTheyHave(t *testing.T) {
	for name, o := range Objects(t) {
		template, ok := Pod(o)
		if !ok {
			continue
		}
		if !reflect.DeepEqual(o.GetLabels(), template.Labels) {
			t.Errorf("%s has labels %v, its pods %v", name, o.GetLabels(), template.Labels)
		}
		var volumes, used []string
		for _, v := range template.Spec.Volumes {
			volumes = append(volumes, v.Name)
		}
		for _, c := range template.Spec.Containers {
			for _, m := range c.VolumeMounts {
				used = append(used, m.Name)
			}
		}
		slices.Sort(volumes)
		slices.Sort(used)
		if used = slices.Compact(used); !slices.Equal(volumes, used) {
			t.Errorf("%s has volumes %v and mounts %v", name, volumes, used)
		}
	}
}

func TestConfigurationIsUnderstood(t *testing.T) {
	machine := startup.Machine{MemoryMiB: 8192, CPUs: 4}
	vpp := startup.New("/run/vpp", machine)
	for file, into := range map[string]any{
		"etcd.conf": &etcd.Config{}, "contiv.conf": &contivconf.Config{}, "controller.conf": &controller.Config{}, "service.conf": &service.Config{},
		"vpp.conf": &vpp,
	} {
		if err := config.Load([]byte(Config(t, file)), into); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	if err := vpp.Check(machine); err != nil {
		t.Errorf("vpp.conf: %v", err)
	}
	// Commented-out options are valid too.
	options := strings.ReplaceAll(Config(t, "vpp.conf"), "# ", "")
	if err := config.Load([]byte(options), &vpp); err != nil {
		t.Errorf("options in comments: %v", err)
	}
	if err := vpp.Check(machine); err != nil || vpp.Workers == 0 || len(vpp.DPDKDevices) == 0 || vpp.Hugepages != "2M" {
		t.Errorf("options in comments: %v, %+v", err, vpp)
	}
}

// All clients of the API server use the configured address, and all etcd addresses and certificates
// are in one place.
func TestNothingNeedsServicesToStart(t *testing.T) {
	var conf etcd.Config
	if err := config.Load([]byte(Config(t, "etcd.conf")), &conf); err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(conf.EndpointsFile) != filepath.Dir(conf.CertFile) || conf.ServerName == "" {
		t.Errorf("etcd.conf: %+v", conf)
	}
	for _, p := range Programs(t, "contiv-ksr") {
		var setting *corev1.ConfigMapKeySelector
		for _, v := range p.Container.Env {
			if v.Name == "API_SERVER" && v.ValueFrom != nil {
				setting = v.ValueFrom.ConfigMapKeyRef
			}
		}
		if setting == nil || setting.Name != "contiv-config" || setting.Key != "api-server" || setting.Optional == nil || !*setting.Optional {
			t.Errorf("%s, container %s: the address of the API server is from %v", p.Object, p.Container.Name, setting)
		}
	}
	if m, ok := Objects(t)["ConfigMap contiv-config"].(*corev1.ConfigMap); !ok || m.Data["api-server"] != "" {
		t.Error("contiv-config: api-server is not there, or not empty")
	}
}

// The image recipe includes the programs of its pods.
func TestImageOfVPPHasThePrograms(t *testing.T) {
	recipe, err := os.ReadFile(filepath.Join(Dir(), "Dockerfile.vpp"))
	if err != nil {
		t.Fatal(err)
	}
	template, _ := Pod(Objects(t)["DaemonSet contiv-vpp"])
	programs := []string{"contiv-agent", "contivctl"}
	for _, c := range template.Spec.Containers {
		switch {
		case strings.Contains(string(recipe), "-t "+c.Image+" "):
			programs = append(programs, c.Command[0])
		case c.Image != "docker.io/contiv/contiv:latest": // which all nodes have
			t.Errorf("the recipe does not make %s", c.Image)
		}
	}
	for _, program := range programs {
		if !strings.Contains(string(recipe), " bin/"+program+" ") {
			t.Errorf("%s is not in the image", program)
		}
		if _, err := os.Stat(filepath.Join(Dir(), "../cmd", program)); err != nil {
			t.Error(err)
		}
	}
}
