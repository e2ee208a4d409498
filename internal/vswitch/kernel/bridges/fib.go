package bridges

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	"github.com/contiv/contiv/internal/netlink/rtnl"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/models"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// fib implements L2 FIB entries: an entry of the bridge points to a port, and for tunnels another
// one on the VXLAN device points to the peer.

type fib struct{ *Driver }

func (v *Driver) FIBPort() vswitch.FIB { return fib{v} }

func (v fib) Create(_ context.Context, entry *vpp_l2.FIBEntry) error {
	if entry.GetAction() == vpp_l2.FIBEntry_DROP {
		return vswitch.Unsupported("L2 FIB entries that drop, in the Linux kernel")
	}
	if err := v.set(entry); err != nil {
		return fmt.Errorf("adding L2 FIB entry %s of bridge domain %q: %w", entry.GetPhysAddress(), entry.GetBridgeDomain(), err)
	}
	v.Reg.Put(entry)
	return nil
}

func (v fib) set(entry *vpp_l2.FIBEntry) error {
	bridge, err := v.Bridge(entry.GetBridgeDomain())
	if err != nil {
		return err
	}
	port, err := v.PortOf(entry.GetOutgoingInterface())
	if err != nil {
		return err
	}
	if port.Attrs().MasterIndex != bridge.Attrs().Index {
		return fmt.Errorf("interface %q is not in the bridge domain", entry.GetOutgoingInterface())
	}
	mac := own.ParseMAC(entry.GetPhysAddress())
	if out := v.Reg.Iface(entry.GetOutgoingInterface()); out.GetType() == vpp_interfaces.Interface_VXLAN_TUNNEL {
		if err := v.Net.NeighSet(remoteEntry(port.Attrs().Index, mac, own.TunnelOf(out).Dst)); err != nil {
			return fmt.Errorf("on device %s: %w", port.Attrs().Name, err)
		}
	}
	local := own.StaticEntry(port.Attrs().Index, mac)
	if !entry.GetStaticConfig() {
		// The entry never ages, but learning may replace it.
		local.State, local.Flags = netlink.NUD_REACHABLE, netlink.NTF_MASTER|netlink.NTF_EXT_LEARNED
	}
	if err := v.Net.NeighSet(local); err != nil {
		return fmt.Errorf("on port %s: %w", port.Attrs().Name, err)
	}
	return nil
}

func remoteEntry(device int, mac net.HardwareAddr, dst netip.Addr) *netlink.Neigh {
	return &netlink.Neigh{
		LinkIndex: device, Family: unix.AF_BRIDGE, Flags: netlink.NTF_SELF,
		State: netlink.NUD_PERMANENT, IP: dst.AsSlice(), HardwareAddr: mac,
	}
}

// Delete removes the entry from all ports, because an incomplete one may not have a port.
func (v fib) Delete(_ context.Context, entry *vpp_l2.FIBEntry) error {
	err := v.Reg.During(entry, func() error { return rtnl.IgnoreGone(v.unset(entry)) })
	if err != nil {
		return fmt.Errorf("deleting L2 FIB entry %s of bridge domain %q: %w", entry.GetPhysAddress(), entry.GetBridgeDomain(), err)
	}
	return nil
}

func (v fib) unset(entry *vpp_l2.FIBEntry) error {
	mac := own.ParseMAC(entry.GetPhysAddress())
	if name := entry.GetOutgoingInterface(); name != "" {
		port, err := v.PortOf(name)
		if err != nil {
			return err
		}
		e := &fibEntry{port: port.Attrs().Index, bridged: true}
		if out := v.Reg.Iface(name); out.GetType() == vpp_interfaces.Interface_VXLAN_TUNNEL {
			e.dst = own.TunnelOf(out).Dst
		}
		return v.unsetAt(e, mac)
	}
	s, err := v.readL2()
	if err != nil {
		return err
	}
	for _, e := range s.entries() {
		if e.bd == entry.GetBridgeDomain() && e.mac == mac.String() {
			if err := v.unsetAt(e, mac); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v fib) unsetAt(e *fibEntry, mac net.HardwareAddr) error {
	if e.bridged {
		err := v.Net.NeighDel(own.StaticEntry(e.port, mac))
		if err := rtnl.IgnoreGone(err); err != nil && !errors.Is(err, unix.EOPNOTSUPP) { // a port outside its bridge has none
			return err
		}
	}
	if !e.dst.IsValid() {
		return nil
	}
	return rtnl.IgnoreGone(v.Net.NeighDel(remoteEntry(e.port, mac, e.dst)))
}

type fibEntry struct {
	bd, mac string
	port    int
	vxlan   *own.VXLANID
	bridged bool
	static  bool
	dst     netip.Addr
}

func (s *l2State) entries() []*fibEntry {
	type at struct {
		port int
		mac  string
	}
	found := map[at]*fibEntry{}
	for _, e := range s.fdb {
		link := s.ByIndex[e.LinkIndex]
		if link == nil || e.State&netlink.NUD_PERMANENT != 0 && e.Flags&netlink.NTF_SELF == 0 {
			continue
		}
		bridge := s.ByIndex[link.Attrs().MasterIndex]
		if bridge == nil {
			continue
		}
		bd, _, ours := own.ParseBridgeAlias(bridge.Attrs().Alias)
		if !ours {
			continue
		}
		k := at{e.LinkIndex, e.HardwareAddr.String()}
		entry := found[k]
		if entry == nil {
			entry = &fibEntry{bd: bd, mac: k.mac, port: k.port}
		}
		id, isVXLAN := own.ParseVXLANAlias(link.Attrs().Alias)
		if isVXLAN {
			entry.vxlan = &id
		}
		switch dst, ok := netip.AddrFromSlice(e.IP); {
		case e.Flags&netlink.NTF_SELF != 0:
			if !isVXLAN || !ok || own.IsTunnelEntry(e) || e.State&netlink.NUD_PERMANENT == 0 {
				continue
			}
			entry.dst = dst.Unmap()
		case e.State&netlink.NUD_NOARP != 0:
			entry.bridged, entry.static = true, true
		case e.Flags&netlink.NTF_EXT_LEARNED != 0:
			entry.bridged = true
		default:
			continue
		}
		found[k] = entry
	}
	list := make([]*fibEntry, 0, len(found))
	for _, e := range found {
		list = append(list, e)
	}
	return list
}

func (v fib) List(_ context.Context, expected []*vpp_l2.FIBEntry) ([]*vpp_l2.FIBEntry, error) {
	s, err := v.readL2()
	if err != nil {
		return nil, err
	}
	type id struct{ bd, mac string }
	wanted := map[id]*vpp_l2.FIBEntry{}
	for _, e := range expected {
		wanted[id{e.GetBridgeDomain(), own.ParseMAC(e.GetPhysAddress()).String()}] = e
	}
	names := s.tunnelNames()
	var list []*vpp_l2.FIBEntry
	for _, e := range s.entries() {
		want := wanted[id{e.bd, e.mac}]
		if want == nil && s.isLoopbackMAC(e) {
			continue // belongs to the binding of the loopback
		}
		entry := &vpp_l2.FIBEntry{BridgeDomain: e.bd, PhysAddress: e.mac, StaticConfig: e.static}
		if want != nil {
			entry.PhysAddress = want.GetPhysAddress()
			entry.BridgedVirtualInterface = want.GetBridgedVirtualInterface()
		}
		switch {
		case !e.bridged: // incomplete: the missing interface makes it differ from all values
		case e.vxlan != nil:
			entry.OutgoingInterface = names[own.Tunnel{VXLANID: *e.vxlan, Dst: e.dst}]
		default:
			entry.OutgoingInterface = s.portName(e.port)
		}
		list = append(list, entry)
	}
	list = onePerKey(list)
	own.Settle(v.Reg, expected, list)
	return list, nil
}

// onePerKey merges entries of a MAC on two ports, which cannot be reported twice. The result has no
// interface, so it differs.
func onePerKey(list []*vpp_l2.FIBEntry) []*vpp_l2.FIBEntry {
	byKey := map[string]*vpp_l2.FIBEntry{}
	return slices.DeleteFunc(list, func(e *vpp_l2.FIBEntry) bool {
		key := models.Key(e)
		if first := byKey[key]; first != nil {
			first.OutgoingInterface = ""
			return true
		}
		byKey[key] = e
		return false
	})
}

func (s *l2State) tunnelNames() map[own.Tunnel]string {
	names := map[own.Tunnel]string{}
	for _, iface := range own.All[*vpp_interfaces.Interface](s.v.Reg) {
		if iface.GetType() == vpp_interfaces.Interface_VXLAN_TUNNEL {
			names[own.TunnelOf(iface)] = iface.GetName()
		}
	}
	return names
}

func (s *l2State) portName(index int) string {
	for _, iface := range s.interfacesOfPort(rtnl.Port{Index: index}, nil, false) {
		return iface.GetName()
	}
	return ""
}

func (s *l2State) isLoopbackMAC(e *fibEntry) bool {
	near := s.ByLogical[s.portName(e.port)]
	return e.vxlan == nil && near != nil && near.Attrs().HardwareAddr.String() == e.mac
}
