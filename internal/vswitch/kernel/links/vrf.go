package links

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
)

// SetVRF routes packets from the device in the VRF's table.
func (v interfaces) SetVRF(_ context.Context, iface string, vrf uint32, versions vswitch.IPVersions) error {
	vrfs := map[int]uint32{}
	for _, family := range own.FamiliesOf(versions) {
		vrfs[family] = vrf
	}
	if err := errors.Join(v.vrf.MoveTo(iface, vrfs), v.vrf.MoveBorrowers(iface)); err != nil {
		return fmt.Errorf("moving interface %q into VRF %d: %w", iface, vrf, err)
	}
	return nil
}

// UnsetVRF keeps the device isolated while the value names another VRF than 0.
func (v interfaces) UnsetVRF(_ context.Context, iface string, vrf uint32, versions vswitch.IPVersions) error {
	vrfs, err := v.vrf.VRFsOf(iface)
	for family, is := range vrfs {
		if is != vrf || !slices.Contains(own.FamiliesOf(versions), family) {
			delete(vrfs, family)
		} else {
			vrfs[family] = 0
		}
	}
	if err == nil {
		err = errors.Join(v.vrf.MoveTo(iface, vrfs), v.vrf.MoveBorrowers(iface))
	}
	if err != nil {
		return fmt.Errorf("moving interface %q out of VRF %d: %w", iface, vrf, err)
	}
	return nil
}
