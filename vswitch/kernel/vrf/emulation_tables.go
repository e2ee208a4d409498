package vrf

import (
	"context"
	"errors"
	"fmt"

	"github.com/contiv/contiv/netlink/rtnl"
	"github.com/contiv/contiv/vswitch/kernel/own"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/vswitch"
	"golang.org/x/sys/unix"
)

// vrfs implements VRF tables. Table 0 is the main table and always exists. Other tables exist if
// their rules do (emulation_rules.go). The kernel does not store labels.
type vrfs struct{ *emulation }

func (v *emulation) VRFPort() vswitch.VRFs { return vrfs{v} }

func (v vrfs) Create(_ context.Context, table *vpp_l3.VrfTable) error {
	if err := errors.Join(noFlowHash(table), own.VRFInRange(table.GetId())); err != nil || table.GetId() == 0 {
		return err
	}
	family := familyOfVRF(table)
	err := v.answerInVRFs(family)
	if err == nil {
		err = v.editVRFs(family, func(s *ruleState) error { s.tables[table.GetId()] = true; return nil })
	}
	if err != nil {
		return fmt.Errorf("creating %v table of VRF %d: %w", table.GetProtocol(), table.GetId(), err)
	}
	v.Reg.Put(table)
	return nil
}

func familyOfVRF(table *vpp_l3.VrfTable) int {
	if table.GetProtocol() == vpp_l3.VrfTable_IPV6 {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

func (v vrfs) Update(_ context.Context, _, new *vpp_l3.VrfTable) error { return noFlowHash(new) }

func noFlowHash(table *vpp_l3.VrfTable) error {
	if table.GetFlowHashSettings() != nil {
		return vswitch.Unsupported("flow_hash_settings: set the sysctl net.ipv4.fib_multipath_hash_policy on the host")
	}
	return nil
}

// Delete has nothing to reset in table 0.
func (v vrfs) Delete(_ context.Context, table *vpp_l3.VrfTable) error {
	if table.GetId() == 0 || !v.UsesVRFs() {
		return nil
	}
	family := familyOfVRF(table)
	err := v.Reg.During(table, func() error {
		err := v.editVRFs(family, func(s *ruleState) error { s.dropTable(table.GetId()); return nil })
		placed, listErr := placed(v.Net, family, 0, own.TableOf(table.GetId()), own.ProtoVRF)
		err = errors.Join(err, listErr)
		for _, r := range placed {
			err = errors.Join(err, rtnl.IgnoreGone(delPlaced(v.Net, r)))
		}
		return errors.Join(err, v.writeMarks())
	})
	if err != nil {
		return fmt.Errorf("deleting %v table of VRF %d: %w", table.GetProtocol(), table.GetId(), err)
	}
	return nil
}

func (v vrfs) List(_ context.Context, expected []*vpp_l3.VrfTable) (list []*vpp_l3.VrfTable, err error) {
	wanted := map[string]*vpp_l3.VrfTable{}
	for _, table := range expected {
		wanted[models.Key(table)] = table
		if table.GetId() == 0 && table.GetFlowHashSettings() == nil {
			list = append(list, table)
		}
	}
	for _, protocol := range []vpp_l3.VrfTable_Protocol{vpp_l3.VrfTable_IPV4, vpp_l3.VrfTable_IPV6} {
		s, rules, err := v.readVRFs(familyOfVRF(&vpp_l3.VrfTable{Protocol: protocol}))
		if err != nil {
			return nil, err
		}
		for id := range s.tables {
			table := &vpp_l3.VrfTable{Id: id, Protocol: protocol}
			switch want := wanted[models.Key(table)]; {
			case want == nil:
				list = append(list, table)
			case s.complete(id, rules) && want.GetFlowHashSettings() == nil:
				list = append(list, want)
			}
		}
	}
	own.Settle(v.Reg, expected, list)
	return list, nil
}

func (s *ruleState) complete(vrf uint32, rules ruleSet) bool {
	for _, r := range append(s.base(), s.block(vrf)...) {
		if !rules[r] {
			return false
		}
	}
	return !rules.localFirst()
}

// Drop removes all rules, marks and isolation.
func (v *emulation) Drop() error {
	var errs []error
	for _, family := range ipFamilies {
		errs = append(errs, v.editVRFs(family, func(s *ruleState) error { *s = *newVRFState(family); return nil }))
		placed, err := placed(v.Net, family, 0, 0, own.ProtoVRF)
		errs = append(errs, err)
		for _, r := range placed {
			errs = append(errs, rtnl.IgnoreGone(delPlaced(v.Net, r)))
		}
	}
	return errors.Join(append(errs, v.dropMarks())...)
}

func (v *emulation) HasTable(family int, vrf uint32) bool {
	v.vrf.mu.Lock()
	defer v.vrf.mu.Unlock()
	return v.vrf.last[family].tables[vrf]
}
