package vrf

import (
	"context"
	"errors"
	"fmt"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/contiv/contiv/models"
	"golang.org/x/sys/unix"
)

// tables implements the tables of VRFs. The tables of VRF 0 are the main ones and always
// exist.
type tables struct{ *Driver }

// VRFPort returns the port of VRF tables.
func (v *Driver) VRFPort() vswitch.VRFs { return tables{v} }

func (v tables) Create(_ context.Context, table *vpp_l3.VrfTable) error {
	if err := errors.Join(noFlowHash(table), own.VRFInRange(table.GetId())); err != nil || table.GetId() == 0 {
		return err
	}
	if _, err := v.ensure(table.GetId(), familyOfVRF(table)); err != nil {
		return fmt.Errorf("creating %v table of VRF %d: %w", table.GetProtocol(), table.GetId(), err)
	}
	v.Reg.Put(table)
	return nil
}

func (v tables) Update(_ context.Context, _, new *vpp_l3.VrfTable) error {
	return noFlowHash(new)
}

// Delete keeps the device for the remaining interfaces, so that they stay out of VRF 0.
func (v tables) Delete(_ context.Context, table *vpp_l3.VrfTable) error {
	if table.GetId() == 0 || !v.UsesVRFs() {
		return nil
	}
	err := v.Reg.During(table, func() error {
		return errors.Join(v.withdraw(table.GetId(), familyOfVRF(table)), v.Sweep())
	})
	if err != nil {
		return fmt.Errorf("deleting %v table of VRF %d: %w", table.GetProtocol(), table.GetId(), err)
	}
	return nil
}

func (v *Driver) withdraw(vrf uint32, family int) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	d, err := v.find(vrf)
	if err != nil || !d.has(family) {
		return rtnl.IgnoreGone(err)
	}
	versions := d.versions
	versions.V4 = versions.V4 && family != unix.AF_INET
	versions.V6 = versions.V6 && family != unix.AF_INET6
	return v.Net.SetLink(d.index, rtnl.LinkChange{Alias: own.VRFAlias(vrf, versions)})
}

func (v tables) List(_ context.Context, expected []*vpp_l3.VrfTable) (list []*vpp_l3.VrfTable, err error) {
	wanted := map[string]*vpp_l3.VrfTable{}
	for _, table := range expected {
		wanted[models.Key(table)] = table
		if table.GetId() == 0 && table.GetFlowHashSettings() == nil {
			list = append(list, table)
		}
	}
	if !v.UsesVRFs() {
		own.Settle(v.Reg, expected, list)
		return list, nil
	}
	all, err := v.all()
	if err != nil {
		return nil, err
	}
	for _, protocol := range []vpp_l3.VrfTable_Protocol{vpp_l3.VrfTable_IPV4, vpp_l3.VrfTable_IPV6} {
		sound, err := v.sound(familyOfVRF(&vpp_l3.VrfTable{Protocol: protocol}))
		if err != nil {
			return nil, err
		}
		for _, table := range sound.tables(all, protocol) {
			switch want := wanted[models.Key(table)]; {
			case want == nil:
				list = append(list, table)
			case sound.is(all, table) && want.GetFlowHashSettings() == nil:
				list = append(list, want)
			}
		}
	}
	own.Settle(v.Reg, expected, list)
	return list, nil
}

func familyOfVRF(table *vpp_l3.VrfTable) int {
	if table.GetProtocol() == vpp_l3.VrfTable_IPV6 {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

func noFlowHash(table *vpp_l3.VrfTable) error {
	if table.GetFlowHashSettings() != nil {
		return vswitch.Unsupported("flow_hash_settings: set the sysctl net.ipv4.fib_multipath_hash_policy on the host")
	}
	return nil
}

// soundness is the state that the tables of an IP version depend on.
type soundness struct {
	family int
	rules  bool // all rules exist and none conflicts
	ends   map[uint32]bool
	state  *ruleState
}

func (v *Driver) sound(family int) (s soundness, err error) {
	s.family = family
	var have ruleSet
	if s.state, have, err = v.rules.read(family); err != nil {
		return s, err
	}
	s.rules = s.state.devices && len(have.missing(s.state.base())) == 0 && !have.localFirst()
	s.ends, err = v.ends(family)
	return s, err
}

func (s soundness) tables(all map[int]device, protocol vpp_l3.VrfTable_Protocol) (list []*vpp_l3.VrfTable) {
	exist := map[uint32]bool{}
	for _, d := range all {
		exist[d.vrf] = exist[d.vrf] || d.has(s.family)
	}
	for vrf, exists := range exist {
		if exists {
			list = append(list, &vpp_l3.VrfTable{Id: vrf, Protocol: protocol})
		}
	}
	return list
}

// is reports whether a table is isolated from VRF 0.
func (s soundness) is(all map[int]device, table *vpp_l3.VrfTable) bool {
	for _, d := range all {
		if d.vrf == table.GetId() {
			return d.has(s.family) && d.up && s.rules && s.ends[d.vrf]
		}
	}
	return false
}

// HasTable reports whether the table of a VRF exists.
func (v *Driver) HasTable(family int, vrf uint32) bool {
	d, err := v.find(vrf)
	return err == nil && d.has(family)
}
