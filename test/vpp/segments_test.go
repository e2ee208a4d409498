package vpp

import (
	"testing"

	"github.com/contiv/contiv/test/labtest"
)

// Services carried by SRv6 segments between two VPP nodes, and between VPP and the kernel.
func TestSegments(t *testing.T) {
	for name, vswitches := range map[string][]string{"vpp to vpp": {"vpp", "vpp"}, "vpp to kernel": {"vpp", "kernel"}, "kernel to vpp": {"kernel", "vpp"}} {
		t.Run(name, func(t *testing.T) {
			labtest.RequireSegments(t, upServices(t, labtest.SegmentsConfig, "services: vswitch\n", vswitches...))
		})
	}
}
