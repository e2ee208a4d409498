package vpp

import (
	"testing"

	"github.com/contiv/contiv/test/labtest"
)

// Services that segments carry between two nodes with VPP, and between VPP and the kernel.
func TestSegments(t *testing.T) {
	for _, other := range []string{"vpp", "kernel"} {
		t.Run("to "+other, func(t *testing.T) {
			labtest.RequireSegments(t, upServices(t, labtest.SegmentsConfig, "services: vswitch\n", "vpp", other), false)
		})
	}
}
