package vpp

import (
	"testing"

	"github.com/contiv/contiv/test/labtest"
)

// Further interfaces of pods on VPP. What an egress-isolated pod answers at one of them leaves through
// eth0, where VPP does not know the connection: docs/custom-interfaces.md. Services lead to them, but
// a pod does not reach itself there: docs/services.md.
func TestCustomInterfaces(t *testing.T) {
	l := upServices(t, servicesConfig, "services: vswitch\n", "vpp")
	t.Run("life", func(t *testing.T) { labtest.RequireCustomInterfaces(t, l, false) })
	t.Run("services", func(t *testing.T) { labtest.RequireServicesAtInterface(t, l, binaries, false) })
}

// So it is for nodes with the kernel beside one with VPP, whose processes are clients outside for it.
func TestServicesAtCustomInterfaces(t *testing.T) {
	l := upServices(t, servicesConfig, "services: vswitch\n", "vpp", "kernel")
	labtest.RequireServicesAtInterface(t, l, binaries, false)
}
