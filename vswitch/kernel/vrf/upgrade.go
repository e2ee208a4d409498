package vrf

import (
	"errors"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
)

// An earlier version, or a kernel without VRF devices, may have left the rules and marks of the
// emulation. Both implementations use the same tables, so both can be active together. List returns
// the objects of the rules as unwanted. The following transactions create the VRF devices and add
// their ports before they remove the rules one by one:
//
//	rules of a device       once it is in its VRF device
//	block of a VRF          once no device rule leads to it
//	rules of a route        once the route leads to a VRF device
//	marks                   with the last rule

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

// keepLeads converts routes into other VRFs to work without rules, before a device of their VRF
// loses its rules.
func (v *devices) keepLeads(family int, device string) error {
	s := v.rules.lastState(family)
	for route, to := range s.inter {
		if to == 0 || route.Vrf != s.members[device] {
			continue
		}
		if _, err := v.ensure(to, 0); err != nil {
			return err
		}
	}
	return nil
}

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
					delete(s.inter, route) // the throw route suffices
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

// lastState returns the known state of the rules.
func (v *emulation) lastState(family int) *ruleState {
	v.vrf.mu.Lock()
	defer v.vrf.mu.Unlock()
	return v.vrf.last[family]
}

func (v *emulation) stands() bool {
	for _, family := range ipFamilies {
		if !v.lastState(family).empty() {
			return true
		}
	}
	return false
}

func (v *emulation) dropTable(table *vpp_l3.VrfTable) error {
	family := familyOfVRF(table)
	if !v.lastState(family).tables[table.GetId()] {
		return nil
	}
	err := v.editVRFs(family, func(s *ruleState) error { s.dropTable(table.GetId()); return nil })
	return errors.Join(err, v.writeMarks())
}
