package vpp

import (
	"testing"

	"github.com/contiv/contiv/test/labtest"
)

// Custom interfaces of pods on VPP. Replies of an egress-isolated pod from them leave through eth0,
// where VPP does not know the connection: docs/user/custom-interfaces.md. A pod cannot reach itself
// through a service at a custom interface: docs/user/vpp-limits.md.
func TestCustomInterfaces(t *testing.T) {
	l := upServices(t, servicesConfig, "services: vswitch\n", "vpp")
	t.Run("life", func(t *testing.T) { labtest.RequireCustomInterfaces(t, l, false) })
	t.Run("services", func(t *testing.T) { labtest.RequireServicesAtInterface(t, l, binaries, false) })
}

// The same for kernel nodes together with a VPP node, for which their processes are outside
// clients.
func TestServicesAtCustomInterfaces(t *testing.T) {
	l := upServices(t, servicesConfig, "services: vswitch\n", "vpp", "kernel")
	labtest.RequireServicesAtInterface(t, l, binaries, false)
}
