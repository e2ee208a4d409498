package kernel

import (
	"fmt"
	"strings"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
)

// InterfaceStats is what the kernel has counted of an interface since its device
// exists. "In" is what the node receives: what a pod sends.
type InterfaceStats struct {
	// Name is the logical name.
	Name                  string
	InPackets, OutPackets uint64
	InBytes, OutBytes     uint64
	InErrors, OutErrors   uint64
	// Drops in either direction.
	Drops uint64
	// Missed packets had no buffer.
	Missed uint64
}

// InterfaceStats reads the counters of all interfaces in use, except of VXLAN
// tunnels, which share a device. The order is undefined.
func (v *VSwitch) InterfaceStats() ([]InterfaceStats, error) {
	devs, err := v.devices()
	if err != nil {
		return nil, fmt.Errorf("reading interface statistics: %w", err)
	}
	existing := map[string]string{} // name of the device -> logical name
	for _, iface := range all[*vpp_interfaces.Interface](v.reg) {
		switch iface.GetType() {
		case vpp_interfaces.Interface_DPDK:
			existing[iface.GetName()] = iface.GetName()
		case vpp_interfaces.Interface_AF_PACKET:
			if device := iface.GetAfpacket().GetHostIfName(); device != "" {
				existing[device] = iface.GetName()
			}
		}
	}
	var list []InterfaceStats
	for _, link := range devs.byIndex {
		attrs := link.Attrs()
		name, ours := strings.CutPrefix(attrs.Alias, aliasInterface)
		if !ours {
			name = existing[attrs.Name]
		}
		if s := attrs.Statistics; name != "" && s != nil {
			list = append(list, InterfaceStats{
				Name:      name,
				InPackets: s.RxPackets, OutPackets: s.TxPackets, InBytes: s.RxBytes, OutBytes: s.TxBytes,
				InErrors: s.RxErrors, OutErrors: s.TxErrors, Drops: s.RxDropped + s.TxDropped, Missed: s.RxMissedErrors,
			})
		}
	}
	return list, nil
}
