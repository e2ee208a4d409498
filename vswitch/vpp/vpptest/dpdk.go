package vpptest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/contiv/contiv/vswitch/vpp/startup"
)

// DPDKName is VPP's name of the NIC that is DPDKTap: by its speed, as a network card's.
const DPDKName = "TenGigabitEthernet0"

// DPDKTap is a NIC that DPDK makes without hardware: a TAP in VPP's network namespace. It is
// there as long as VPP runs.
func DPDKTap(device string) DPDKDevice {
	return DPDKDevice{Name: DPDKName, vdev: "net_tap0,iface=" + device}
}

// DPDKPacket is a NIC that DPDK makes of a device of VPP's network namespace.
func DPDKPacket(device string) DPDKDevice {
	return DPDKDevice{Name: "Ethernet0", vdev: "net_af_packet0,blocksz=8192,framesz=4096,framecnt=512,iface=" + device}
}

// DPDKDevice is a NIC of DPDK.
type DPDKDevice struct {
	Name string // VPP's
	vdev string
}

// Options are those of VPP's section dpdk for the NIC. The machine's devices and its huge
// pages stay as they are.
func (d DPDKDevice) Options() []string { return []string{"no-pci", "no-hugetlb", "vdev " + d.vdev} }

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

// NewDPDKProcess is like NewProcess, with a VPP that has a NIC of DPDK; begun is called
// whenever VPP has started.
func NewDPDKProcess(t testing.TB, netns string, device DPDKDevice, begun func()) *Process {
	t.Helper()
	p := newProcess(t, netns, NeedDPDK(t))
	p.config.DPDKOptions, p.begun = device.Options(), begun
	p.Start()
	return p
}
