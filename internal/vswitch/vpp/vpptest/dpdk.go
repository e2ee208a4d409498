package vpptest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/vpp/startup"
	interfaces "go.fd.io/govpp/binapi/interface"
)

// DPDKName is VPP's name of the NIC of DPDKTap, derived from its speed.
const DPDKName = "TenGigabitEthernet0"

// DPDKTap is a NIC emulated by DPDK: a TAP in VPP's network namespace, while VPP runs.
func DPDKTap(device string) DPDKDevice {
	return DPDKDevice{Name: DPDKName, vdev: "net_tap0,iface=" + device}
}

// DPDKPacket is a DPDK NIC on a device of VPP's network namespace.
func DPDKPacket(device string) DPDKDevice {
	return DPDKDevice{Name: "Ethernet0", vdev: "net_af_packet0,iface=" + device}
}

// DPDKBroken is a NIC that VPP cannot initialize, because its frames do not fit into buffers.
func DPDKBroken(device string) DPDKDevice {
	return DPDKDevice{Name: "Ethernet0", vdev: "net_af_packet0,framesz=4096,blocksz=8192,framecnt=512,iface=" + device}
}

// DPDKDevice is a NIC of DPDK.
type DPDKDevice struct {
	Name string // VPP's
	vdev string
}

// Options returns the lines of VPP's section dpdk for the NIC. They leave the machine's devices and
// huge pages alone.
func (d DPDKDevice) Options() []string { return []string{"no-pci", "no-hugetlb", "vdev " + d.vdev} }

// NeedDPDK returns the path of a VPP with the plugin dpdk, and skips the test if none is available.
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
	t.Skip("needs a VPP with the plugin dpdk: make test-vpp " + BinaryVariable + "=/usr/bin/vpp, with the package vpp-plugin-dpdk")
	return ""
}

// NewDPDKProcess is like NewProcess for a VPP with a DPDK NIC; begun is called after each start of
// VPP.
func NewDPDKProcess(t testing.TB, netns string, device DPDKDevice, begun func()) *Process {
	t.Helper()
	p := newProcess(t, netns, NeedDPDK(t))
	p.config.DPDKOptions, p.begun = device.Options(), begun
	p.Start()
	return p
}

// AddNIC adds a device of VPP's own, such as a DPDK network card, until a restart. Its longest
// frame is 1518 bytes.
func (s *Server) AddNIC(name string) { s.addNIC(name, dpdkNIC{}) }

// AddBrokenNIC adds a NIC that failed to initialize.
func (s *Server) AddBrokenNIC(name string) { s.addNIC(name, dpdkNIC{broken: true}) }

func (s *Server) addNIC(name string, kind dpdkNIC) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.state.ifs.add(&swInterface{prefix: name, kind: kind, SwInterfaceDetails: interfaces.SwInterfaceDetails{
		InterfaceName: name, InterfaceDevType: "dpdk", L2Address: s.state.ifs.randomMAC(), Mtu: []uint32{1496, 0, 0, 0},
	}})
	i.LinkMtu = 1496
}

func (i *swInterface) isBroken() bool {
	nic, ok := i.kind.(dpdkNIC)
	return ok && nic.broken
}

func handleDPDK() {
	commandsAbout["show hardware-interfaces "] = func(c *call, name string) (text string) {
		c.ifs.all(func(i *swInterface) {
			if i.InterfaceName != name {
				return
			}
			if text = "    flags:\n"; i.isBroken() {
				text = "    flags: pmd-init-fail\n  Errors:\n    rte_eth_rx_queue_setup[port:0, errno:-12]: Unknown error -12\n"
			}
		})
		return text
	}
}
