package neighbours

import (
	"fmt"
	"net/netip"
	"syscall"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/drift"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/contiv/contiv/models"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Notice detects deleted or changed entries of ours.
func (v *Driver) Notice(m syscall.NetlinkMessage, send func(drift.Notice)) {
	switch m.Header.Type {
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		v.noticeNeighbour(m, send)
	}
}

// Check does nothing: events are conclusive.
func (v *Driver) Check(*drift.Batch) {}

func (v *Driver) noticeNeighbour(m syscall.NetlinkMessage, send func(drift.Notice)) {
	n, ok := rtnl.ParseNeighbour(m.Data)
	if !ok {
		return
	}
	name, ok := v.Dev.Name(n.Index)
	if !ok {
		return
	}
	entry := v.neighbourEntry(name, n.Ip)
	if entry == nil {
		return
	}
	what := "deleted"
	if m.Header.Type == unix.RTM_NEWNEIGH {
		if n.State&netlink.NUD_PERMANENT != 0 && n.Mac.String() == own.ParseMAC(entry.GetPhysAddress()).String() {
			return
		}
		what = "changed"
	}
	send(drift.Notice{Reason: fmt.Sprintf("neighbour %s of interface %q was %s", n.Ip, name, what), Keys: []string{models.Key(entry)}})
}

// neighbourEntry finds the value of a neighbour, in any notation of its address.
func (v *Driver) neighbourEntry(iface string, ip netip.Addr) *vpp_l3.ARPEntry {
	if value, ok := v.Reg.Get(models.Key(&vpp_l3.ARPEntry{Interface: iface, IpAddress: ip.String()})); ok {
		return value.(*vpp_l3.ARPEntry)
	}
	if ip.Is4() {
		return nil
	}
	for _, entry := range own.All[*vpp_l3.ARPEntry](v.Reg) {
		if addr, err := netip.ParseAddr(entry.GetIpAddress()); err == nil && addr == ip && entry.GetInterface() == iface {
			return entry
		}
	}
	return nil
}
