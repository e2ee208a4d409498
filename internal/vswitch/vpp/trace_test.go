package vpp

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
)

func openTraced(t testing.TB, s *site) *VSwitch {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	v, err := New(ctx, Options{Socket: s.Socket(), TracePackets: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	return v
}

// A VPP that cannot trace is used nevertheless, like the simulated one.
func TestVPPThatCannotTrace(t *testing.T) {
	server := vpptest.New(t)
	v := openTraced(t, &site{VPP: server, server: server})
	if err := v.Connected(); err != nil {
		t.Error(err)
	}
}

func TestPacketsAreTraced(t *testing.T) {
	vpptest.Need(t)
	h := newNamespace(t)
	s := &site{VPP: vpptest.NewProcess(t, h.NetNS), host: h}
	v := openTraced(t, s)
	pod := s.attachPod(t, v, "pod", "10.1.0.2/24", "10.1.0.1")
	ping(t, pod, "10.1.0.1")
	out, err := v.vpp.CLI(t.Context(), "show trace max 100")
	if err != nil || !strings.Contains(out, "af-packet-input") || !strings.Contains(out, "10.1.0.2 -> 10.1.0.1") {
		t.Errorf("trace: %v\n%s", err, out)
	}
}
