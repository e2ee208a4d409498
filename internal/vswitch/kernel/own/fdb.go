package own

import (
	"fmt"
	"net"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Fdb reads the FDB entries of one device, or of all with index 0.
func (v *Host) Fdb(index int) ([]netlink.Neigh, error) {
	entries, err := rtnl.Dump(func() ([]netlink.Neigh, error) { return v.Net.NeighList(index, unix.AF_BRIDGE) })
	if err != nil {
		return nil, fmt.Errorf("reading L2 forwarding entries: %w", err)
	}
	return entries, nil
}

func IsTunnelEntry(e netlink.Neigh) bool {
	return e.HardwareAddr.String() == ZeroMAC.String() && e.IP != nil && e.Flags&netlink.NTF_SELF != 0
}

var ZeroMAC = make(net.HardwareAddr, 6)

// StaticEntry returns a bridge's entry for frames to one of its ports.
func StaticEntry(port int, mac []byte) *netlink.Neigh {
	return &netlink.Neigh{
		LinkIndex: port, Family: unix.AF_BRIDGE, Flags: netlink.NTF_MASTER,
		State: netlink.NUD_NOARP, HardwareAddr: mac,
	}
}

// MoveLoopbackFDB updates the entry of a bridged loopback after a change of its MAC.
func (v *Host) MoveLoopbackFDB(iface string, old, new []byte) error {
	port, err := v.PortOf(iface)
	if err != nil || port.Attrs().MasterIndex == 0 {
		return err
	}
	if err := v.Net.NeighSet(StaticEntry(port.Attrs().Index, new)); err != nil {
		return err
	}
	return rtnl.IgnoreGone(v.Net.NeighDel(StaticEntry(port.Attrs().Index, old)))
}
