package vpp

import (
	"testing"

	"github.com/contiv/contiv/test/labtest"
)

// Services that segments carry between two nodes with VPP, and between VPP and the kernel.
func TestSegments(t *testing.T) {
	for name, vswitches := range map[string][]string{"vpp to vpp": {"vpp", "vpp"}, "vpp to kernel": {"vpp", "kernel"}, "kernel to vpp": {"kernel", "vpp"}} {
		t.Run(name, func(t *testing.T) {
			labtest.RequireSegments(t, upServices(t, labtest.SegmentsConfig, "services: vswitch\n", vswitches...))
		})
	}
}
