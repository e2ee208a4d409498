package integration

import (
	"testing"

	"github.com/contiv/contiv/test/labtest"
)

// Further interfaces of pods on the kernel vswitch, with both IP versions.
func TestCustomInterfaces(t *testing.T) {
	require(t)
	opts := options("ci")
	opts.ContivConfig = `
ipamConfig:
  podSubnetCIDR: 10.1.0.0/16,fd10:1::/48
  vxlanCIDR: 192.168.30.0/24,fd30::/112
`
	l := labtest.Up(t, opts)
	labtest.AwaitAddresses(t, l)
	labtest.RequireCustomInterfaces(t, l, true)
}
