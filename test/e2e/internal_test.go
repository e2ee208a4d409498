package e2e

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/lib/config"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/test/lab"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Paths of a node's file system in manifests move to the node's directory, including those in
// arguments.
func TestManifestsAreAdaptedToNodesThatShareAFileSystem(t *testing.T) {
	manifest, err := os.ReadFile("../../deploy/contiv.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := newCluster(Options{Name: "x"})
	adapted, err := c.adapt(manifest)
	if err != nil {
		t.Fatal(err)
	}
	var agent appsv1.DaemonSet
	for _, document := range strings.Split(string(adapted), "\n---\n") {
		var found appsv1.DaemonSet
		if yaml.Unmarshal([]byte(document), &found) == nil && found.Name == "contiv-agent" && found.Kind == "DaemonSet" {
			agent = found
		}
	}
	containers := agent.Spec.Template.Spec.Containers
	if len(containers) != 3 {
		t.Fatalf("%d containers", len(containers))
	}
	for _, v := range agent.Spec.Template.Spec.Volumes {
		if v.HostPath != nil && v.HostPath.Path != "/run/contiv-e2e/x/nodes" {
			t.Errorf("volume %s: %s", v.Name, v.HostPath.Path)
		}
	}
	mounts := map[string]string{}
	for _, m := range containers[0].VolumeMounts {
		mounts[m.MountPath] = m.SubPathExpr
	}
	for path, sub := range map[string]string{
		"/var/run/contiv":         "$(NODE_NAME)/var/run/contiv",
		"/var/bolt":               "$(NODE_NAME)/var/bolt",
		"/etc/contiv":             "",
		"/run/contiv-e2e/x/nodes": "",
	} {
		if got, mounted := mounts[path]; !mounted || got != sub {
			t.Errorf("%s is mounted from %q, not %q", path, got, sub)
		}
	}
	if socket := "--socket=/run/contiv-e2e/x/nodes/$(NODE_NAME)/var/run/contiv/cni.sock"; !slices.Contains(containers[2].Command, socket) {
		t.Errorf("command of the CNI: %v", containers[2].Command)
	}
}

// A cluster without kube-proxy needs one setting.
func TestManifestsAreAdaptedToClustersWithoutKubeProxy(t *testing.T) {
	manifest, err := os.ReadFile("../../deploy/contiv.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for without, want := range map[bool]string{false: "", true: "https://192.168.16.254:443"} {
		adapted, err := newCluster(Options{Name: "x", WithoutProxy: without}).adapt(manifest)
		if err != nil {
			t.Fatal(err)
		}
		var config corev1.ConfigMap
		for _, document := range strings.Split(string(adapted), "\n---\n") {
			var found corev1.ConfigMap
			if yaml.Unmarshal([]byte(strings.TrimPrefix(document, "---\n")), &found) == nil && found.Kind == "ConfigMap" && found.Name == "contiv-config" {
				config = found
			}
		}
		if got, there := config.Data["api-server"]; !there || got != want {
			t.Errorf("without kube-proxy %v: api-server is %q, want %q", without, got, want)
		}
	}
}

// All nodes share the machine's devices; the configuration names VPP's NICs.
func TestManifestsAreAdaptedToNodesWithVPP(t *testing.T) {
	c := newCluster(Options{Name: "x"})
	c.nodes = []lab.Node{
		{Name: "node1", VSwitch: lab.KernelVSwitch},
		{Name: "node2", VSwitch: lab.VPPVSwitch, VPPAddress: netip.MustParsePrefix("192.168.16.102/24")},
	}
	objects := map[string]string{}
	for _, file := range []string{"contiv.yaml", "contiv-vpp.yaml"} {
		manifest, err := os.ReadFile("../../deploy/" + file)
		if err != nil {
			t.Fatal(err)
		}
		adapted, err := c.adapt(manifest)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range strings.Split(string(adapted), "\n---\n") {
			var found metav1.PartialObjectMetadata
			if err := yaml.Unmarshal([]byte(document), &found); err != nil {
				t.Fatal(err)
			}
			objects[found.Kind+" "+found.Name] = document
		}
	}
	var agent appsv1.DaemonSet
	if err := yaml.Unmarshal([]byte(objects["DaemonSet contiv-vpp"]), &agent); err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{}
	for _, v := range agent.Spec.Template.Spec.Volumes {
		if v.HostPath != nil {
			paths[v.Name] = v.HostPath.Path
		}
	}
	if paths["dev"] != "/dev" || paths["vpp"] != "/run/contiv-e2e/x/nodes" {
		t.Errorf("paths of the machine: %v", paths)
	}
	var shared, vpp corev1.ConfigMap
	err := errors.Join(yaml.Unmarshal([]byte(objects["ConfigMap contiv-config"]), &shared), yaml.Unmarshal([]byte(objects["ConfigMap contiv-vpp-config"]), &vpp))
	if err != nil {
		t.Fatal(err)
	}
	var conf contivconf.Config
	if err := config.Load([]byte(shared.Data["contiv.conf"]), &conf); err != nil {
		t.Fatal(err)
	}
	if n := conf.NodeConfig; len(n) != 1 || n[0].NodeName != "node2" || n[0].MainVPPInterface.IP != "192.168.16.102/24" {
		t.Errorf("nodeConfig: %+v", n)
	}
	if vpp.Data["vpp.conf"] != lab.VPPOptions() {
		t.Errorf("vpp.conf: %s", vpp.Data["vpp.conf"])
	}
}

// Agents accept the configuration of a cluster with IPv6.
func TestManifestsAreAdaptedToIPVersions(t *testing.T) {
	manifest, err := os.ReadFile("../../deploy/contiv.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for version, want := range map[IPVersions]string{IPv4: "10.1.0.0/16 10.96.0.0/12", IPv6: "fd10:1::/48 fd96::/112", DualStack: "10.1.0.0/16 10.96.0.0/12 fd10:1::/48 fd96::/112"} {
		adapted, err := newCluster(Options{Name: "x", IP: version}).adapt(manifest)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range strings.Split(string(adapted), "\n---\n") {
			var found corev1.ConfigMap
			if yaml.Unmarshal([]byte(strings.TrimPrefix(document, "---\n")), &found) != nil || found.Kind != "ConfigMap" || found.Name != "contiv-config" {
				continue
			}
			conf, err := contivconf.Load([]byte(found.Data["contiv.conf"]))
			if err != nil {
				t.Fatalf("%s: %v", version, err)
			}
			c, err := contivconf.New("node1", conf, contivconf.Sources{}, nil, nil, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatalf("%s: %v\n%s", version, err, found.Data["contiv.conf"])
			}
			var got []string
			subnets := c.Subnets()
			for _, f := range subnets.Families() {
				got = append(got, f.Pods.String())
				for _, services := range f.Services {
					got = append(got, services.String())
				}
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s: %v, want %s", version, got, want)
			}
		}
	}
}

func TestIPVersionsThatClustersCannotHaveAreRefused(t *testing.T) {
	for _, o := range []Options{{IP: "ipv5"}, {IP: IPv6, VSwitches: []string{"kernel", "vpp"}}} {
		if err := o.check(); err == nil || !strings.Contains(err.Error(), "IP version") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// With single-NIC nodes, the configuration makes VPP borrow the NIC.
func TestManifestsAreAdaptedToNodesWithASingleNIC(t *testing.T) {
	manifest, err := os.ReadFile("../../deploy/contiv.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := newCluster(Options{Name: "x"})
	c.nodes = []lab.Node{
		{Name: "node1", VSwitch: lab.KernelVSwitch},
		{Name: "node2", VSwitch: lab.VPPVSwitch, SingleNIC: true, VPPAddress: netip.MustParsePrefix("192.168.16.2/24")},
	}
	adapted, err := c.adapt(manifest)
	if err != nil {
		t.Fatal(err)
	}
	var conf contivconf.Config
	for _, document := range strings.Split(string(adapted), "\n---\n") {
		var found corev1.ConfigMap
		if yaml.Unmarshal([]byte(strings.TrimPrefix(document, "---\n")), &found) == nil && found.Kind == "ConfigMap" && found.Name == "contiv-config" {
			if err := config.Load([]byte(found.Data["contiv.conf"]), &conf); err != nil {
				t.Fatal(err)
			}
		}
	}
	if conf.StealInterface != "eth0" || len(conf.NodeConfig) != 0 {
		t.Errorf("stealInterface: %q, nodeConfig: %+v", conf.StealInterface, conf.NodeConfig)
	}
}

func TestImageLayersHoldEachFileOnceAfterItsDirectories(t *testing.T) {
	layer, err := image{files: []imageFile{
		{path: "usr/bin/a", mode: 0o755, data: []byte("a")},
		{path: "usr/lib/x.so", mode: 0o755, data: []byte("x")},
		{path: "usr/lib/x.so", mode: 0o755, data: []byte("x")},
		{path: "bin/sh", link: "busybox"},
	}}.layer()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(bytes.NewReader(layer)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
	want := []string{"tmp/", "proc/", "sys/", "dev/", "usr/", "usr/bin/", "usr/bin/a", "usr/lib/", "usr/lib/x.so", "bin/", "bin/sh"}
	if !slices.Equal(names, want) {
		t.Errorf("got  %v\nwant %v", names, want)
	}
}

func TestMountPointsComeDeepestFirst(t *testing.T) {
	points, err := mountPoints("/proc")
	if err != nil {
		t.Fatal(err)
	}
	if len(points) == 0 || points[len(points)-1] != "/proc" {
		t.Errorf("mounted at and below /proc: %v", points)
	}
}
