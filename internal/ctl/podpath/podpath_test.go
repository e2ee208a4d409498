package podpath

import (
	"fmt"
	"strings"
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/plugins/ipnet"
)

func TestDraw(t *testing.T) {
	pod := ipnet.PodReport{Name: "web", Interface: "eth0", IPs: []string{"10.1.1.2/32", "fd00::2/128"}, VPPInterface: "vpp-tap-1"}
	const up, down = vpp_interfaces.InterfaceState_UP, vpp_interfaces.InterfaceState_DOWN
	state := func(name, device string, admin, link vpp_interfaces.InterfaceState_Status) *vpp_interfaces.InterfaceState {
		return &vpp_interfaces.InterfaceState{Name: name, InternalName: device, AdminStatus: admin, OperStatus: link}
	}
	tap, bvi, nic := state("vpp-tap-1", "c-9f", up, up), state("vxlanBVI", "c-bvi", up, up), state("eth0", "eth0", up, down)
	const start = "web eth0 10.1.1.2,fd00::2 ── vpp-tap-1 c-9f (UP) ── vswitch of n1"
	for name, c := range map[string]struct {
		nic    string
		others int
		states []*vpp_interfaces.InterfaceState
		want   string
	}{
		"tunnels":         {"eth0", 2, []*vpp_interfaces.InterfaceState{tap, bvi, nic}, start + " ─┬─ vxlanBVI c-bvi (UP) ── pods of n2, n3\n" + strings.Repeat(" ", len([]rune(start))) + "  └─ eth0 (DOWN) ── outside"},
		"no tunnels":      {"eth0", 5, []*vpp_interfaces.InterfaceState{tap, nic}, start + " ── eth0 (DOWN) ── pods of n2, n3, n4, …, outside"},
		"alone":           {"eth0", 0, []*vpp_interfaces.InterfaceState{tap, bvi, nic}, start + " ── eth0 (DOWN) ── outside"},
		"no NIC":          {"", 0, []*vpp_interfaces.InterfaceState{tap}, start},
		"without its end": {"eth0", 0, []*vpp_interfaces.InterfaceState{nic}, "web eth0 10.1.1.2,fd00::2 ── vpp-tap-1 (missing) ── vswitch of n1 ── eth0 (DOWN) ── outside"},
		"disabled":        {"", 0, []*vpp_interfaces.InterfaceState{state("vpp-tap-1", "", down, down)}, "web eth0 10.1.1.2,fd00::2 ── vpp-tap-1 (disabled) ── vswitch of n1"},
	} {
		t.Run(name, func(t *testing.T) {
			n := node{name: "n1", nic: c.nic, states: map[string]*vpp_interfaces.InterfaceState{}}
			for i := range c.others {
				n.others = append(n.others, fmt.Sprintf("n%d", i+2))
			}
			for _, s := range c.states {
				n.states[s.GetName()] = s
			}
			if got := strings.Join(n.draw(pod).Lines(func(text string) string { return text }, 150), "\n"); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// A drawing that is too wide is drawn downwards.
func TestNarrow(t *testing.T) {
	d := Drawing{"web eth0 10.1.1.2 ── tap (UP) ── vswitch of n1", []string{"vxlanBVI (UP) ── pods of n2", "eth0 (UP) ── outside"}}
	want := `web eth0 10.1.1.2
└─ tap (UP)
   └─ vswitch of n1
      ├─ vxlanBVI (UP) ── pods of n2
      └─ eth0 (UP) ── outside`
	if got := strings.Join(d.Lines(func(text string) string { return text }, 60), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	d.ends = d.ends[1:]
	if got := d.Lines(func(text string) string { return text }, 60); len(got) != 4 || got[3] != "      └─ eth0 (UP) ── outside" {
		t.Errorf("%q", got)
	}
}
