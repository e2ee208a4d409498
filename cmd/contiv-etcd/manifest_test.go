package main

import (
	"fmt"
	"testing"

	"github.com/contiv/contiv/test/manifests"
)

func TestManifestsRunEtcd(t *testing.T) {
	for _, p := range manifests.Programs(t, "contiv-etcd") {
		c := command()
		if err := c.ParseFlags(p.Args); err != nil {
			t.Errorf("%s: %v", p.Object, err)
		}
		for _, probe := range p.Probes() {
			asked := fmt.Sprintf("http://%s:%d", probe.HTTPGet.Host, probe.HTTPGet.Port.IntVal)
			if served, _ := c.Flags().GetString("listen-health"); asked != served {
				t.Errorf("%s: a probe asks %s, etcd answers at %s", p.Object, asked, served)
			}
		}
	}
}
