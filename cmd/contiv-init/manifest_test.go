package main

import (
	"cmp"
	"path"
	"testing"
	"time"

	"github.com/contiv/contiv/test/manifests"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
)

func TestManifestsRunContivInit(t *testing.T) {
	for _, p := range manifests.Programs(t, "contiv-init") {
		var o options
		flags := pflag.NewFlagSet("contiv-init", pflag.ContinueOnError)
		o.register(flags)
		if err := flags.Parse(p.Args); err != nil {
			t.Errorf("%s: %v", p.Object, err)
		}
		if grace := time.Duration(*p.Pod.TerminationGracePeriodSeconds) * time.Second; grace <= o.agentGrace+o.vppGrace {
			t.Errorf("%s has %v to end; the agent may take %v, then VPP %v", p.Object, grace, o.agentGrace, o.vppGrace)
		}
		mounted := map[string]corev1.VolumeMount{}
		for _, m := range p.Container.VolumeMounts {
			mounted[m.MountPath] = m
		}
		if _, ok := mounted[o.runtimeDir]; !ok {
			t.Errorf("%s: VPP's sockets are in %s, which is not the node's", p.Object, o.runtimeDir)
		}
		// The options are where the program looks for them.
		options := cmp.Or(o.vppOptions, standardOptions)
		config := false
		for _, v := range p.Pod.Volumes {
			if v.Name != mounted[path.Dir(options)].Name || v.Projected == nil {
				continue
			}
			for _, source := range v.Projected.Sources {
				m, _ := manifests.Objects(t)["ConfigMap "+source.ConfigMap.Name].(*corev1.ConfigMap)
				config = config || m != nil && m.Data[path.Base(options)] != ""
			}
		}
		if !config {
			t.Errorf("%s: %s is in no ConfigMap that is mounted there", p.Object, options)
		}
		// Kubernetes restarts a hanging agent later than contiv-init does.
		probe := p.Container.LivenessProbe
		period := max(probe.PeriodSeconds, 10) // default of Kubernetes
		if dead := time.Duration(probe.FailureThreshold*period) * time.Second; dead <= 2*lastDelay {
			t.Errorf("%s counts as dead after %v, but the agent may be started again after %v", p.Object, dead, lastDelay)
		}
	}
}
