package main

import (
	"testing"

	"github.com/contiv/contiv/test/manifests"
)

func TestManifestsInstallTheCNIPlugin(t *testing.T) {
	programs := manifests.Programs(t, "contiv-cni")
	if len(programs) != 2 {
		t.Errorf("%d containers", len(programs))
	}
	for _, p := range programs {
		var o installation
		if p.Args[0] != "install" {
			t.Errorf("%s: %v", p.Object, p.Args)
		} else if err := parse(o.flags(), p.Args[1:]); err != nil {
			t.Errorf("%s: %v", p.Object, err)
		}
	}
}
