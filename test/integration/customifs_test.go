package integration

import (
	"testing"

	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/labtest"
)

func TestCustomInterfaces(t *testing.T) {
	require(t)
	opts := options("ci")
	opts.ContivConfig, opts.ServiceConfig = clientsConfig, "services: vswitch\n"
	l := labtest.Up(t, opts)
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	command.In(t, st.Underlay(), "ip address add fd16::fe/112 dev nodes nodad")
	labtest.AwaitAddresses(t, l)
	t.Run("life", func(t *testing.T) { labtest.RequireCustomInterfaces(t, l, true) })
	t.Run("services", func(t *testing.T) { labtest.RequireServicesAtInterface(t, l, binaries, true) })
}
