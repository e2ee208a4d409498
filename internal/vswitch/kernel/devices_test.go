package kernel

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
)

// Another party's device may take the index of one of ours, for example when it moves here from
// another namespace. It is neither changed nor deleted.
func TestDeviceThatTookAnIndex(t *testing.T) {
	for name, do := range map[string]func(v *VSwitch) error{
		"address": func(v *VSwitch) error {
			return v.Interfaces().AddAddress(t.Context(), "tap1", netip.MustParsePrefix("10.5.0.1/24"))
		},
		"route": func(v *VSwitch) error {
			return v.Routes().Create(t.Context(), &vpp_l3.Route{DstNetwork: "10.6.0.0/16", OutgoingInterface: "tap1"})
		},
		"update": func(v *VSwitch) error {
			return v.Interfaces().Update(t.Context(), tap("tap1"), &vpp_interfaces.Interface{Name: "tap1", Type: vpp_interfaces.Interface_TAP, Enabled: true, Mtu: 1400})
		},
		"deletion": func(v *VSwitch) error { return v.Interfaces().Delete(t.Context(), tap("tap1")) },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			v := openKernel(t, n)
			check(t, v.Interfaces().Create(t.Context(), tap("tap1")))
			index, cached := v.Dev.Get("tap1")
			if !cached {
				t.Fatal("no device is cached")
			}
			n.Exec(t, "ip link del dev c-tap1")
			n.Exec(t, fmt.Sprintf("ip link add foreign index %d type bridge", index))
			n.Exec(t, "ip link set dev foreign up")
			before := n.Exec(t, "ip -o addr show dev foreign") + n.Exec(t, "ip route show dev foreign")
			if err := do(v); (err == nil) != (name == "deletion") {
				t.Errorf("got %v", err)
			}
			if after := n.Exec(t, "ip -o addr show dev foreign") + n.Exec(t, "ip route show dev foreign"); after != before {
				t.Errorf("was %s, is %s", before, after)
			}
			if link := n.Exec(t, "ip -o link show dev foreign"); !strings.Contains(link, "mtu 1500") {
				t.Errorf("the device is %s", link)
			}
		})
	}
}
