package vrf

import (
	"fmt"
	"net"
	"strings"
	"syscall"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/drift"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/contiv/contiv/models"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

type (
	suspectVRF uint32
	// lostVRF is a VRF whose device was down or deleted, even if it is up again.
	lostVRF       uint32
	suspectMember int // index of a device that may have left its VRF device
)

// Notice handles VRF devices, their ports, the ends of their tables, policy rules, and guests.
func (v *Driver) Notice(m syscall.NetlinkMessage, send func(drift.Notice)) {
	if !v.UsesVRFs() {
		return
	}
	v.rules.notice(m, send)
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		v.noticeLink(m, send)
	case unix.RTM_DELROUTE:
		if r, ok := rtnl.ParseRouteEvent(m); ok && r.Protocol == own.ProtoVRF {
			if vrf, ok := own.VRFOfTable(r.Table); ok {
				send(drift.Notice{Suspect: suspectVRF(vrf)})
			}
		}
	}
}

func (v *Driver) noticeLink(m syscall.NetlinkMessage, send func(drift.Notice)) {
	if len(m.Data) < unix.SizeofIfInfomsg || m.Data[0] == unix.AF_BRIDGE {
		return
	}
	header := unix.NlMsghdr(m.Header)
	link, err := netlink.LinkDeserialize(&header, m.Data)
	if err != nil {
		return
	}
	if vrf, ok := link.(*netlink.Vrf); ok {
		if id, ok := own.VRFOfTable(vrf.Table); ok {
			send(drift.Notice{Suspect: suspectVRF(id)})
			if m.Header.Type == unix.RTM_DELLINK || vrf.Flags&net.FlagUp == 0 {
				send(drift.Notice{Suspect: lostVRF(id)})
			}
		}
		return
	}
	if _, known := v.Dev.Name(link.Attrs().Index); known {
		send(drift.Notice{Suspect: suspectMember(link.Attrs().Index)})
	}
}

// Check reports what Notice noticed and is not as wanted.
func (v *Driver) Check(b *drift.Batch) {
	for _, index := range drift.Suspects[suspectMember](b) {
		v.checkMember(b, int(index))
	}
	for _, vrf := range drift.Suspects[suspectVRF](b) {
		v.checkVRF(b, uint32(vrf))
	}
	for _, vrf := range drift.Suspects[lostVRF](b) {
		v.reportRoutesInto(b, uint32(vrf))
	}
	v.rules.check(b)
}

func (v *Driver) checkMember(b *drift.Batch, index int) {
	link, err := v.Net.LinkByIndex(index)
	if err != nil {
		return
	}
	iface := v.Reg.Iface(v.LogicalOf(link))
	if iface == nil || strings.HasPrefix(link.Attrs().Alias, own.AliasPort) {
		return
	}
	d, inVRF, err := v.masterOf(link)
	if err != nil || !inVRF && link.Attrs().MasterIndex != 0 || v.guestOf(link) != 0 {
		return // a port, a guest, or an unknown device
	}
	wanted := wantedVRF(v.Host, iface)
	if d.vrf == wanted || wanted == 0 && !inVRF {
		return
	}
	if wanted != 0 {
		if _, borrows := v.Reg.Assigned(iface.GetName()); iface.GetUnnumbered() != nil && !borrows {
			return
		}
		b.Report(fmt.Sprintf("device %s is not in VRF device %s", link.Attrs().Name, own.VRFDeviceName(wanted)), v.Reg.KeysOf(iface.GetName())...)
	}
}

// checkVRF reports the tables of a VRF that are not isolated.
func (v *Driver) checkVRF(b *drift.Batch, vrf uint32) {
	all, err := v.all()
	if err != nil {
		v.Log.Warn("Checking VRF devices failed", "error", err)
		return
	}
	for _, table := range own.All[*vpp_l3.VrfTable](v.Reg) {
		if table.GetId() != vrf {
			continue
		}
		sound, err := v.sound(familyOfVRF(table))
		if err != nil {
			v.Log.Warn("Checking VRF tables failed", "error", err)
			return
		}
		if !sound.is(all, table) {
			b.Report(fmt.Sprintf("VRF device %s or the end of its table was changed", own.VRFDeviceName(vrf)), models.Key(table))
		}
	}
}

// reportRoutesInto reports the routes into a VRF, which the kernel removes when its device goes down.
func (v *Driver) reportRoutesInto(b *drift.Batch, vrf uint32) {
	for _, route := range own.All[*vpp_l3.Route](v.Reg) {
		if route.GetViaVrfId() == vrf && own.LeadsAway(route) {
			b.Report(fmt.Sprintf("VRF device %s was deleted or down", own.VRFDeviceName(vrf)), models.Key(route))
		}
	}
}

// wantedVRF returns the VRF of an interface's value; an unnumbered one follows its lender.
func wantedVRF(host *own.Host, iface *vpp_interfaces.Interface) uint32 {
	if lender := iface.GetUnnumbered().GetInterfaceWithIp(); lender != "" {
		return host.Reg.Iface(lender).GetVrf()
	}
	return iface.GetVrf()
}

func wantedVRFs(host *own.Host) map[uint32]bool {
	vrfs := map[uint32]bool{}
	for _, iface := range own.All[*vpp_interfaces.Interface](host.Reg) {
		vrfs[wantedVRF(host, iface)] = true
	}
	return vrfs
}
