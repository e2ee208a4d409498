package vrf

import (
	"errors"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
)

// An earlier version, or one on a kernel that had no VRF devices, may have left the rules and marks of
// the emulation. Both ways have the same tables, so that both can be in force at a time. What the rules
// stand for is listed as something that no value asks for; the transactions that follow make the
// VRF devices, put the devices into them, and only then remove the rules of each, one by one:
//
//	rules of a device       when it is in its VRF device
//	block of a VRF          when no rules of devices lead to it
//	rules of a route        when the route leads to a VRF device itself
//	marks                   with the last rule

// forgetRules removes the rules of a device.
func (v *devices) forgetRules(device string) error {
	for _, family := range ipFamilies {
		s := v.rules.lastState(family)
		if s.members[device] == 0 && s.isolated[device] == 0 {
			continue
		}
		if err := v.keepLeads(family, device); err != nil {
			return err
		}
		if err := v.rules.editVRFs(family, func(s *ruleState) error { delete(s.members, device); delete(s.isolated, device); return nil }); err != nil {
			return err
		}
	}
	return v.shed()
}

// keepLeads makes routes lead into other VRFs without rules, before a device of their VRF loses its own.
func (v *devices) keepLeads(family int, device string) error {
	s := v.rules.lastState(family)
	for route, to := range s.inter {
		if to == 0 || route.Vrf != s.members[device] {
			continue
		}
		if _, err := v.ensure(to, 0); err != nil { // converts the route
			return err
		}
	}
	return nil
}

// shed removes the rules that nothing needs any more.
func (v *devices) shed() error {
	had, emulates := false, false
	for _, family := range ipFamilies {
		if !v.rules.lastState(family).emulates() {
			continue
		}
		had = true
		err := v.rules.editVRFs(family, func(s *ruleState) error {
			led := map[uint32]bool{}
			for _, vrf := range s.members {
				led[vrf] = true
			}
			for vrf := range s.tables {
				if d, err := v.find(vrf); err == nil && d.has(family) && !led[vrf] {
					delete(s.tables, vrf)
				}
			}
			for route, to := range s.inter {
				if to == 0 && !led[route.Vrf] {
					delete(s.inter, route) // the throw route says it all
				}
			}
			emulates = emulates || s.emulates()
			return nil
		})
		if err != nil {
			return err
		}
	}
	if emulates || !had {
		return nil
	}
	return v.rules.writeMarks()
}

// lastState is what rules say, as far as we know.
func (v *emulation) lastState(family int) *ruleState {
	v.vrf.mu.Lock()
	defer v.vrf.mu.Unlock()
	return v.vrf.last[family]
}

// stands reports whether there are rules.
func (v *emulation) stands() bool {
	for _, family := range ipFamilies {
		if !v.lastState(family).empty() {
			return true
		}
	}
	return false
}

// dropTable removes the rules of a table, if it has some.
func (v *emulation) dropTable(table *vpp_l3.VrfTable) error {
	family := familyOfVRF(table)
	if !v.lastState(family).tables[table.GetId()] {
		return nil
	}
	err := v.editVRFs(family, func(s *ruleState) error { s.dropTable(table.GetId()); return nil })
	return errors.Join(err, v.writeMarks())
}
