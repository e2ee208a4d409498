package vrf

import (
	"fmt"
	"slices"
	"syscall"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"golang.org/x/sys/unix"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch/kernel/drift"
	"github.com/contiv/contiv/models"
)

type (
	suspectRules   struct{}
	suspectPlaced  int // index of a device whose addresses may lack routes in their VRF
	suspectConfine int
)

// notice handles policy rules and the routes of addresses.
func (v *rules) notice(m syscall.NetlinkMessage, send func(drift.Notice)) {
	switch m.Header.Type {
	case unix.RTM_NEWRULE, unix.RTM_DELRULE:
		v.noticeRule(m.Data, send)
	case unix.RTM_DELADDR:
		if a, ok := rtnl.ParseAddress(m.Data); ok {
			send(drift.Notice{Suspect: suspectPlaced(a.Index)})
		}
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		v.noticePlaced(m, send)
	}
}

// noticePlaced detects the loss of a route of a guest's address, and an address that the kernel
// adds to the table local when a device goes up.
func (v *rules) noticePlaced(m syscall.NetlinkMessage, send func(drift.Notice)) {
	r, ok := rtnl.ParseRouteEvent(m)
	switch {
	case !ok:
	case r.Deleted && r.Protocol == own.ProtoVRF:
		send(drift.Notice{Suspect: suspectPlaced(r.Device)})
	case !r.Deleted && r.Table == unix.RT_TABLE_LOCAL:
		if name, ok := v.Dev.Name(r.Device); ok && v.isGuest(deviceOf(v.Host, name)) {
			send(drift.Notice{Suspect: suspectConfine(r.Device)})
		}
	}
}

// check checks rules, marks and the routes of addresses.
func (v *rules) check(b *drift.Batch) {
	for _, index := range drift.Suspects[suspectConfine](b) {
		v.checkConfined(b, int(index))
	}
	for _, index := range drift.Suspects[suspectPlaced](b) {
		v.checkPlaced(b, int(index))
	}
	if len(drift.Suspects[suspectRules](b)) > 0 {
		v.checkRules(b)
	}
	if by, foreign := v.NFT.Foreign(drift.Suspects[nft.Change](b), "inet "+vrfTableName, "arp "+vrfTableName); foreign {
		v.checkMarks(b, by)
	}
}

// noticeRule handles events of our rules, and of the rule of the table local, which another party
// may have moved back to the front.
func (v *rules) noticeRule(data []byte, send func(drift.Notice)) {
	if r, ok := rtnl.ParseRule(data); ok && (isOurRule(r) || isLocal(r)) {
		send(drift.Notice{Suspect: suspectRules{}})
	}
}

func (v *rules) checkRules(b *drift.Batch) {
	v.mu.Lock()
	lost := v.lost
	v.lost = nil
	inTheWay := map[int]bool{}
	for _, family := range ipFamilies {
		_, have, err := v.read(family)
		if err != nil {
			v.Log.Warn("Checking policy rules failed", "error", err)
			continue
		}
		want := v.last[family].render()
		lost = append(lost, have.missing(want)...)
		inTheWay[family] = len(want) > 0 && have.localFirst()
	}
	v.mu.Unlock()
	for _, r := range lost {
		if keys := v.keysOfRule(r); len(keys) > 0 {
			b.Report(fmt.Sprintf("policy rule %d was deleted", r.Pref), keys...)
		}
	}
	for family, wrong := range inTheWay {
		if wrong {
			b.Report("a policy rule that leads to the table local was put first", v.keysOfVRFs(family, 0)...)
		}
	}
}

func (v *rules) keysOfRule(r rtnl.Rule) []string {
	switch {
	case r.L3mdev:
		return v.keysOfVRFs(r.Family, 0)
	case r.Pref == prefInto && r.Mark != 0:
		return v.keysOfVRFs(r.Family, r.Mark&^mark)
	case r.Pref == prefInto:
		link, err := v.LinkNamed(r.Iif + r.Oif)
		if err != nil {
			return nil // has a separate event
		}
		if iface := v.Reg.Iface(v.LogicalOf(link)); iface != nil {
			return []string{models.Key(iface)}
		}
		return nil
	}
	return v.keysOfVRFs(r.Family, 0)
}

// keysOfVRFs returns the key of a table; for VRF 0, the keys of all other tables.
func (v *rules) keysOfVRFs(family int, vrf uint32) (keys []string) {
	for _, table := range own.All[*vpp_l3.VrfTable](v.Reg) {
		if table.GetId() != 0 && familyOfVRF(table) == family && (vrf == 0 || vrf == table.GetId()) {
			keys = append(keys, models.Key(table))
		}
	}
	return keys
}

func (v *rules) checkPlaced(b *drift.Batch, index int) {
	name, _ := v.Dev.Name(index)
	iface := v.Reg.Iface(name)
	link, err := v.Net.LinkByIndex(index)
	if iface == nil || err != nil || !v.isGuest(link.Attrs().Name) {
		return
	}
	view, err := v.view()
	if err != nil {
		v.Log.Warn("Checking addresses in VRFs failed", "error", err)
		return
	}
	addrs, err := v.Net.Addresses(index)
	if err != nil {
		return
	}
	wanted, _ := v.Reg.Assigned(name)
	for _, a := range addrs {
		if wanted[a.Prefix] && a.Proto == own.ProtoOurs && !view.intact(link, a) {
			b.Report(fmt.Sprintf("address %s of interface %q is not in its VRF", a.Prefix, name), models.Key(iface))
		}
	}
}

// checkMarks reports the interfaces with wrong marks; by names the process that changed the table.
func (v *rules) checkMarks(b *drift.Batch, by string) {
	if !v.stand() {
		return
	}
	have, err := v.readMarks()
	if err != nil {
		v.Log.Warn("Checking marks failed", "error", err)
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for family, s := range v.last {
		for device, vrf := range s.guests {
			if have.has(family, device, vrf) {
				continue
			}
			link, err := v.LinkNamed(device)
			if err != nil {
				continue
			}
			if iface := v.Reg.Iface(v.LogicalOf(link)); iface != nil {
				b.Report(fmt.Sprintf("nftables table %q was changed%s", vrfTableName, by), models.Key(iface))
			}
		}
	}
}

func (v *rules) checkConfined(b *drift.Batch, index int) {
	name, _ := v.Dev.Name(index)
	iface := v.Reg.Iface(name)
	if iface == nil {
		return
	}
	for _, family := range ipFamilies {
		if vrf, err := v.confined(index, family); err != nil || vrf == 0 {
			continue
		}
		leaked, err := v.leaked(index, family)
		if err != nil {
			v.Log.Warn("Checking addresses in VRFs failed", "interface", name, "error", err)
			continue
		}
		for _, r := range leaked {
			b.Report(fmt.Sprintf("the kernel gave address %s of interface %q to VRF 0", r.dst.Addr(), name), models.Key(iface))
		}
	}
}

func (v *rules) isGuest(device string) bool {
	return slices.ContainsFunc(ipFamilies, func(family int) bool { return v.lastState(family).guests[device] != 0 })
}
