package kernel

import (
	"fmt"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/models"
)

// noticeRule: rules of ours, and that of the table local, which somebody may have put
// first again.
func (v *VSwitch) noticeRule(data []byte, send func(notice)) {
	if r, ok := parseRule(data); ok && v.usesVRFs() && (r.isVRFRule() || r.isLocal()) {
		send(notice{rules: true})
	}
}

// noticeLocal: the kernel has added an address to the table local, as it does
// whenever a device goes up.
func (v *VSwitch) noticeLocal(index int, send func(notice)) {
	if !v.usesVRFs() {
		return
	}
	if name, ok := v.dev.name(index); ok && len(v.rulesOf(v.deviceOf(name))) > 0 {
		send(notice{confine: index})
	}
}

// rulesOf returns the VRFs that we have put a device into.
func (v *VSwitch) rulesOf(device string) (vrfs []uint32) {
	v.vrf.mu.Lock()
	defer v.vrf.mu.Unlock()
	for _, s := range v.vrf.last {
		if vrf := s.members[device]; vrf != 0 {
			vrfs = append(vrfs, vrf)
		}
	}
	return vrfs
}

// checkRules reports what lacks a rule that we left.
func (v *VSwitch) checkRules(b *batch) {
	v.vrf.mu.Lock()
	lost := v.vrf.lost
	v.vrf.lost = nil
	inTheWay := map[int]bool{}
	for _, family := range ipFamilies {
		_, have, err := v.readVRFs(family)
		if err != nil {
			v.log.Warn("checking policy rules", "error", err)
			continue
		}
		want := v.vrf.last[family].render()
		lost = append(lost, have.missing(want)...)
		inTheWay[family] = len(want) > 0 && have.localFirst()
	}
	v.vrf.mu.Unlock()
	for _, r := range lost {
		if keys := v.keysOfRule(r); len(keys) > 0 {
			b.report(fmt.Sprintf("policy rule %d was deleted", r.pref), keys)
		}
	}
	for family, wrong := range inTheWay {
		if wrong {
			b.report("a policy rule that leads to the table local was put first", v.keysOfVRFs(family, 0))
		}
	}
}

// keysOfRule returns the keys of the values that the rule is for.
func (v *VSwitch) keysOfRule(r rule) []string {
	switch {
	case r.pref == prefInto && r.mark != 0:
		return v.keysOfVRFs(r.family, r.mark&^vrfMark)
	case r.pref == prefInto, r.pref == prefIsolated:
		link, err := v.linkNamed(r.iif + r.oif)
		if err != nil {
			return nil // that is an event of its own
		}
		if iface := v.reg.iface(v.logicalOf(link)); iface != nil {
			return []string{models.Key(iface)}
		}
		return nil
	case r.pref < prefBlocks:
		return v.keysOfVRFs(r.family, 0)
	}
	vrf, offset := (r.pref-prefBlocks)/blockSize, (r.pref-prefBlocks)%blockSize
	if offset == 0 || offset == blockEnd {
		return v.keysOfVRFs(r.family, vrf)
	}
	var keys []string
	for _, route := range all[*vpp_l3.Route](v.reg) {
		if leadsAway(route) && route.GetVrfId() == vrf && familyOfRoute(route) == r.family {
			keys = append(keys, models.Key(route))
		}
	}
	return keys
}

// keysOfVRFs returns the key of a table; with VRF 0 those of all others.
func (v *VSwitch) keysOfVRFs(family int, vrf uint32) (keys []string) {
	for _, table := range all[*vpp_l3.VrfTable](v.reg) {
		if table.GetId() != 0 && familyOfVRF(table) == family && (vrf == 0 || vrf == table.GetId()) {
			keys = append(keys, models.Key(table))
		}
	}
	return keys
}

// checkPlaced reports an interface whose addresses lack a route in their VRF.
func (v *VSwitch) checkPlaced(b *batch, index int) {
	name, _ := v.dev.name(index)
	iface := v.reg.iface(name)
	link, err := v.nl.LinkByIndex(index)
	if iface == nil || err != nil || !v.usesVRFs() {
		return
	}
	view, err := v.viewVRFs()
	if err != nil {
		v.log.Warn("checking addresses in VRFs", "error", err)
		return
	}
	addrs, err := v.raw.addresses(index)
	if err != nil {
		return
	}
	wanted, _ := v.reg.assigned(name)
	for _, a := range addrs {
		if wanted[a.prefix] && a.proto == protoOurs && !view.intact(link, a) {
			b.report(fmt.Sprintf("address %s of interface %q is not in its VRF", a.prefix, name), []string{models.Key(iface)})
		}
	}
}

// checkMarks reports the interfaces whose packets are not marked as they should be.
func (v *VSwitch) checkMarks(b *batch) {
	if !v.usesVRFs() {
		return
	}
	have, err := v.readMarks()
	if err != nil {
		v.log.Warn("checking marks", "error", err)
		return
	}
	v.vrf.mu.Lock()
	defer v.vrf.mu.Unlock()
	for family, s := range v.vrf.last {
		for device, vrf := range s.members {
			if have.has(family, device, vrf) {
				continue
			}
			link, err := v.linkNamed(device)
			if err != nil {
				continue
			}
			if iface := v.reg.iface(v.logicalOf(link)); iface != nil {
				b.report(fmt.Sprintf("nftables table %q was changed", vrfTableName), []string{models.Key(iface)})
			}
		}
	}
}
