package vpp

import (
	"testing"

	"github.com/contiv/contiv/test/labtest"
)

// Further interfaces of pods on VPP. What an egress-isolated pod answers at one of them leaves through
// eth0, where VPP does not know the connection: docs/custom-interfaces.md.
func TestCustomInterfaces(t *testing.T) {
	l := upServices(t, servicesConfig, "services: vswitch\n", "vpp")
	labtest.RequireCustomInterfaces(t, l, false)
}
