package main

import (
	"fmt"
	"slices"
	"testing"

	"github.com/contiv/contiv/test/manifests"
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
		if c.HasParent() { // it answers no probes
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
