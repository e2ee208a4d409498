package hostdev

import (
	"os"
	"testing"
)

// Close returns.
func TestOpenAndClose(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	h, err := Open("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	lo, err := h.Device("lo")
	if err != nil || lo == nil {
		t.Errorf("found %v, %v; want the loopback device", lo, err)
	}
	if none, err := h.Device("no-such-device"); none != nil || err != nil {
		t.Errorf("found %v, %v; want nothing", none, err)
	}
}

// Without access to VPP's namespace, no devices are found.
func TestNoNamespace(t *testing.T) {
	var h *Namespace
	defer h.Close()
	if dev, err := h.Device("lo"); dev != nil || err != nil {
		t.Errorf("found %v, %v; want nothing", dev, err)
	}
}
