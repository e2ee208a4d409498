package bridges

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/drift"
	"github.com/contiv/contiv/models"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

type (
	suspectPorts  struct{}
	suspectBridge int
)

// Notice handles bridges, their ports and their FDB entries.
func (v *Driver) Notice(m syscall.NetlinkMessage, send func(drift.Notice)) {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		if len(m.Data) < unix.SizeofIfInfomsg {
			return
		}
		if m.Data[0] == unix.AF_BRIDGE {
			send(drift.Notice{Suspect: suspectPorts{}})
		} else if alias := rtnl.LinkAlias(m); m.Header.Type == unix.RTM_NEWLINK &&
			(strings.HasPrefix(alias, own.AliasBridge) || strings.HasPrefix(alias, own.AliasPort)) {
			send(drift.Notice{Suspect: suspectBridge(rtnl.LinkIndex(m.Data))})
		}
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		if len(m.Data) > 0 && m.Data[0] == unix.AF_BRIDGE {
			v.noticeFDB(m, send)
		}
	}
}

// Check compares the suspected bridges and their ports with the bridge domains.
func (v *Driver) Check(b *drift.Batch) {
	for _, index := range drift.Suspects[suspectBridge](b) {
		v.checkBridge(b, int(index))
	}
	if len(drift.Suspects[suspectPorts](b)) > 0 {
		v.checkPorts(b)
	}
}

func (v *Driver) checkBridge(b *drift.Batch, index int) {
	link, err := v.Net.LinkByIndex(index)
	if err != nil || link.Attrs().Flags&net.FlagUp != 0 {
		return
	}
	if name, _, ok := own.ParseBridgeAlias(link.Attrs().Alias); ok {
		b.Report(fmt.Sprintf("bridge %s is down", link.Attrs().Name), models.BridgeDomain.KeyPrefix()+name)
	} else {
		b.Suspect(suspectPorts{})
	}
}

// noticeFDB: entries of VXLAN devices belong to tunnels or the L2 FIB, entries of bridges to the L2
// FIB or loopbacks.
func (v *Driver) noticeFDB(m syscall.NetlinkMessage, send func(drift.Notice)) {
	e, err := netlink.NeighDeserialize(m.Data)
	if err != nil {
		return
	}
	deleted := m.Header.Type == unix.RTM_DELNEIGH
	dst := own.AddrOf(e.IP)
	if e.HardwareAddr.String() == own.ZeroMAC.String() {
		if !deleted || !dst.IsValid() {
			return
		}
		for _, iface := range v.Tunnels(func(t own.Tunnel) bool { return t.Dst == dst }) {
			send(drift.Notice{Reason: fmt.Sprintf("VXLAN peer %s was removed", dst), Keys: v.Reg.KeysOf(iface.GetName())})
		}
		return
	}
	mac := e.HardwareAddr.String()
	for _, entry := range own.All[*vpp_l2.FIBEntry](v.Reg) {
		if own.ParseMAC(entry.GetPhysAddress()).String() != mac || !deleted && v.echoes(entry, e) {
			continue
		}
		send(drift.Notice{Reason: fmt.Sprintf("L2 FIB entry %s was changed", mac), Keys: []string{models.Key(entry)}})
	}
	if deleted && e.State&netlink.NUD_NOARP != 0 {
		send(drift.Notice{Suspect: suspectPorts{}})
	}
}

func (v *Driver) echoes(entry *vpp_l2.FIBEntry, e *netlink.Neigh) bool {
	port, err := v.PortOf(entry.GetOutgoingInterface())
	if err != nil || port.Attrs().Index != e.LinkIndex {
		return false
	}
	out := v.Reg.Iface(entry.GetOutgoingInterface())
	return out.GetType() != vpp_interfaces.Interface_VXLAN_TUNNEL || e.IP == nil || own.AddrOf(e.IP) == own.TunnelOf(out).Dst
}

func (v *Driver) checkPorts(b *drift.Batch) {
	s, err := v.readL2()
	if err != nil {
		v.Log.Warn("Checking bridge ports failed", "error", err)
		return
	}
	for _, bd := range own.All[*vpp_l2.BridgeDomain](v.Reg) {
		link := s.Named(own.DeviceName(own.DevBridge, bd.GetName()))
		if link == nil {
			continue // has a separate event
		}
		_, params, _ := own.ParseBridgeAlias(link.Attrs().Alias)
		bound := s.describeBD(bd.GetName(), params, link, bd)
		for _, want := range bd.GetInterfaces() {
			if !v.Reg.IsBound(want.GetName(), bd.GetName()) {
				continue // not yet or no longer
			}
			if !slices.ContainsFunc(bound.GetInterfaces(), func(i *vpp_l2.BridgeDomain_Interface) bool { return i.GetName() == want.GetName() }) {
				b.Report(fmt.Sprintf("interface %q is not bound to bridge domain %q as it should be", want.GetName(), bd.GetName()),
					models.Key(bd))
			}
		}
	}
}
