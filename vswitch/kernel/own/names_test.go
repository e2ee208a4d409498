package own

import (
	"net/netip"
	"testing"
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
