package own

import (
	"net/netip"
	"testing"

	"github.com/contiv/contiv/internal/vswitch"
)

func TestNames(t *testing.T) {
	for logical, want := range map[string]string{
		"podGwLoop":            "c-podGwLoop",
		"GigabitEthernet0/9/0": "", "vpp-tap-0123456789abcdef": "", "with space": "", "exactly13char": "c-exactly13char",
	} {
		got := DeviceName(DevInterface, logical)
		if want != "" && got != want || len(got) > MaxDeviceName || !PlainName.MatchString(got) {
			t.Errorf("device of %q: %q", logical, got)
		}
	}
	p := BridgeParameters{Flood: true, Learn: true, MacAge: 7}
	if name, got, ok := ParseBridgeAlias(BridgeAlias("a]/b", p)); !ok || name != "a]/b" || got != p {
		t.Errorf("bridge domain alias: %q %v %v", name, got, ok)
	}
	for _, src := range []string{"10.0.0.1", "fd00::1"} {
		id := VXLANID{netip.MustParseAddr(src), 1<<24 - 1}
		if got, ok := ParseVXLANAlias(id.Alias()); !ok || got != id || len(VXLANDeviceName(id)) > MaxDeviceName {
			t.Errorf("VXLAN alias: %v %v, device %s", got, ok, VXLANDeviceName(id))
		}
	}
	if _, ok := ParseVXLANAlias("contiv:vpp-vxlan/x"); ok {
		t.Error("a malformed alias was parsed")
	}
}

func TestVRFAliases(t *testing.T) {
	for alias, want := range map[string]vswitch.IPVersions{
		"contiv:vpp-vrf[]/5": {}, "contiv:vpp-vrf[v4]/5": {V4: true}, "contiv:vpp-vrf[v4,v6]/5": {V4: true, V6: true},
	} {
		vrf, versions, ok := ParseVRFAlias(alias)
		if !ok || vrf != 5 || versions != want || VRFAlias(vrf, versions) != alias {
			t.Errorf("%s: VRF %d with %v, %v", alias, vrf, versions, ok)
		}
	}
	for _, alias := range []string{"", "contiv:vpp/x", "contiv:vpp-vrf[v4]", "contiv:vpp-vrf[v4]/0", "contiv:vpp-vrf[v4]/16384", "contiv:vpp-vrf[v4]/x"} {
		if _, _, ok := ParseVRFAlias(alias); ok {
			t.Errorf("%q is taken for the name of a VRF device", alias)
		}
	}
}
