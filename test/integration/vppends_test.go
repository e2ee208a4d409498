package integration

import (
	"strings"
	"testing"

	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

// If VPP exits during the start, Up fails and reports how VPP ended.
func TestUpWithAVPPThatEnds(t *testing.T) {
	require(t)
	opts := options("ve")
	opts.Nodes, opts.VSwitches, opts.VPPBin = 1, []string{lab.VPPVSwitch}, "/bin/false"
	_, err := lab.Up(t.Context(), opts)
	if err == nil || !strings.Contains(err.Error(), "VPP ended before it was ready: exit status 1; the end of") {
		t.Errorf("%v", err)
	}
	if err := labtest.Down(opts); err != nil {
		t.Error(err)
	}
}
