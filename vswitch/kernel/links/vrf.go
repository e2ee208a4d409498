package links

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/kernel/own"
)

// SetVRF leads what the device receives to the table of the VRF.
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

// UnsetVRF leaves the device isolated for as long as the interface is to be in
// another VRF than 0.
func (v interfaces) UnsetVRF(_ context.Context, iface string, vrf uint32, versions vswitch.IPVersions) error {
	vrfs, err := v.vrf.VRFsOf(iface)
	for family, is := range vrfs {
		if is != vrf || !slices.Contains(own.FamiliesOf(versions), family) {
			delete(vrfs, family) // it is in another one already
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
