package integration

import (
	"os/exec"
	"testing"

	"github.com/contiv/contiv/test/labtest"
)

// Services that segments carry between two nodes with the kernel.
func TestSegments(t *testing.T) {
	require(t)
	opts := options("sr")
	opts.ContivConfig, opts.ServiceConfig = labtest.SegmentsConfig, "services: vswitch\n"
	l := labtest.Up(t, opts)
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("ip", "-n", st.Underlay(), "address", "add", "fd16::fe/112", "dev", "nodes", "nodad").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	labtest.AwaitAddresses(t, l)
	labtest.RequireSegments(t, l)
}
