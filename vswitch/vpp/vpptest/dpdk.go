package vpptest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/contiv/contiv/vswitch/vpp/startup"
)

// DPDKName is VPP's name of the NIC that NewDPDKProcess gives it: by its speed, as a
// network card's.
const DPDKName = "TenGigabitEthernet0"

// NeedDPDK returns the path of the program of a VPP with the plugin dpdk, and skips the
// test if there is none.
func NeedDPDK(t testing.TB) (binary string) {
	t.Helper()
	binary = Need(t)
	dirs := []string{startup.PluginPath(binary)}
	if dirs[0] == "" {
		dirs, _ = filepath.Glob("/usr/lib/*/vpp_plugins")
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "dpdk_plugin.so")); err == nil {
			return binary
		}
	}
	t.Skip("needs a VPP with the plugin dpdk")
	return ""
}

// NoHardware are options of VPP's section dpdk that keep the machine's devices and its huge
// pages as they are, and make a NIC: a TAP in VPP's network namespace. It is there as
// long as VPP runs.
func NoHardware(device string) []string {
	return []string{"no-pci", "no-hugetlb", "vdev net_tap0,iface=" + device}
}

// NewDPDKProcess is like NewProcess, with a VPP that has a NIC of DPDK, DPDKName. Whenever
// it has started, begun is to do something with the NIC's other end, device.
func NewDPDKProcess(t testing.TB, netns, device string, begun func()) *Process {
	t.Helper()
	p := newProcess(t, netns, NeedDPDK(t))
	p.config.DPDKOptions, p.begun = NoHardware(device), begun
	p.Start()
	return p
}
