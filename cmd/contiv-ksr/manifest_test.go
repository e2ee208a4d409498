package main

import (
	"fmt"
	"path"
	"slices"
	"testing"

	"github.com/contiv/contiv/internal/ctl/install"
	"github.com/contiv/contiv/test/manifests"
	corev1 "k8s.io/api/core/v1"
)

func TestManifestsRunKSR(t *testing.T) {
	for _, p := range manifests.Programs(t, "contiv-ksr") {
		c, args, err := command().Find(p.Args)
		if err == nil {
			err = c.ParseFlags(args)
		}
		if err != nil {
			t.Errorf("%s: %v", p.Object, err)
		}
		if c.HasParent() { // without probes
			continue
		}
		served, err := c.Flags().GetStringArray("http")
		if err != nil {
			t.Fatal(err)
		}
		for _, probe := range p.Probes() {
			if address := fmt.Sprintf("%s:%d", probe.HTTPGet.Host, probe.HTTPGet.Port.IntVal); !slices.Contains(served, address) {
				t.Errorf("%s: a probe asks %s, KSR answers at %v", p.Object, address, served)
			}
		}
	}
}

// With a certificate for metrics, KSR serves them on a port of its pod.
func TestManifestsHaveKSRServeMetrics(t *testing.T) {
	rendered, err := install.Render("monitoring: {secretName: metrics}")
	if err != nil {
		t.Fatal(err)
	}
	template, _ := manifests.Pod(manifests.Parse(t, rendered)["DaemonSet contiv-ksr"])
	container := template.Spec.Containers[0]
	c := command()
	if err := c.ParseFlags(append(container.Command[1:], container.Args...)); err != nil {
		t.Fatal(err)
	}
	served, err := c.Flags().GetStringSlice("metrics")
	if err != nil || len(container.Ports) != 1 || !slices.Equal(served, []string{fmt.Sprintf(":%d", container.Ports[0].ContainerPort)}) {
		t.Errorf("metrics are at %v (%v), ports of the pod are %v", served, err, container.Ports)
	}
	for _, flag := range []string{"metrics-cert-file", "metrics-key-file", "metrics-client-ca-file"} {
		file := c.Flags().Lookup(flag).Value.String()
		if !slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == path.Dir(file) }) {
			t.Errorf("--%s=%s is in none of %v", flag, file, container.VolumeMounts)
		}
	}
}
