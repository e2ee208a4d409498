package e2e

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// What the manifests say of a node's file system is moved into the node's directory,
// also where arguments name it as the node sees it.
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
	if len(containers) != 2 {
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
	if socket := "--socket=/run/contiv-e2e/x/nodes/$(NODE_NAME)/var/run/contiv/cni.sock"; !slices.Contains(containers[1].Command, socket) {
		t.Errorf("command of the CNI: %v", containers[1].Command)
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
