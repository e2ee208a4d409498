package interfaces

import (
	"testing"

	"github.com/contiv/contiv/models"
)

// An address waits until its interface is in a VRF of its IP version, because vswitches do not move
// interfaces with addresses.
func TestAddressWaitsForVRFOfItsVersion(t *testing.T) {
	inherited := models.VPPInterfaceInheritedVRFKey("if", "lender")
	v4, v6 := models.VPPInterfaceVRFKey("if", 5, "v4"), models.VPPInterfaceVRFKey("if", 5, "v6")
	for addr, wanted := range map[string][]string{
		"10.0.0.1/24": {v4, inherited}, "fd00::1/64": {v6, inherited}, "alloc:net": {v4, v6, inherited},
	} {
		selects := inVRFOf("if", addr).AnyOf.KeySelector
		for _, key := range []string{v4, v6, inherited} {
			want := false
			for _, w := range wanted {
				want = want || w == key
			}
			if have := selects == nil || selects(key); have != want {
				t.Errorf("%s waits for %s: %v, want %v", addr, key, have, want)
			}
		}
	}
}
