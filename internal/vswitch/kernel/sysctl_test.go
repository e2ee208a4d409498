package kernel

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/contiv/contiv/models"
)

func sysctl(t *testing.T, n *node, name string) string {
	t.Helper()
	return strings.TrimSpace(n.Exec(t, "sysctl -n "+name))
}

// A node of an IPv4 cluster does not forward IPv6, and still accepts router advertisements.
func TestIPv6IsForwardedWithIPv6Only(t *testing.T) {
	for name, configure := range map[string]func(*VSwitch) error{
		"address of a device of ours": func(v *VSwitch) error {
			return v.Interfaces().AddAddress(t.Context(), "tap1", netip.MustParsePrefix("fd10:1::1/64"))
		},
		"route": func(v *VSwitch) error {
			return v.Routes().Create(t.Context(), &vpp_l3.Route{DstNetwork: "fd10:1::2/128", OutgoingInterface: "tap1"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.Exec(t, "sysctl -qw net.ipv6.conf.eth0.accept_ra=1")
			const forwarding = "net.ipv6.conf.all.forwarding"
			v := openKernel(t, n)
			check(t, v.Interfaces().Create(t.Context(), tap("tap1")))
			check(t, v.Interfaces().AddAddress(t.Context(), "tap1", netip.MustParsePrefix("10.1.1.1/24")))
			check(t, v.Routes().Create(t.Context(), &vpp_l3.Route{DstNetwork: "10.1.1.2/32", OutgoingInterface: "tap1"}))
			if sysctl(t, n, forwarding) != "0" || sysctl(t, n, "net.ipv6.conf.eth0.accept_ra") != "1" || sysctl(t, n, "net.ipv4.ip_forward") != "1" {
				t.Error("with IPv4 only, IPv6 is forwarded, or IPv4 is not")
			}
			check(t, configure(v))
			if sysctl(t, n, forwarding) != "1" || sysctl(t, n, "net.ipv6.conf.eth0.accept_ra") != "2" {
				t.Error("IPv6 is not forwarded")
			}
			if got := sysctl(t, n, "net.ipv6.conf.c-tap1.accept_ra"); got != "0" {
				t.Errorf("a device of ours has accept_ra %s", got)
			}
			if name == "route" { // another party disables it, the next agent enables it
				n.Exec(t, "sysctl -qw "+forwarding+"=0")
				openKernel(t, n)
				if sysctl(t, n, forwarding) != "1" {
					t.Error("an agent that finds routes of ours does not forward IPv6")
				}
			}
		})
	}
}

// A stricter setting of the administrator stays, for our devices, too. Pods that use their own
// addresses are not affected.
func TestReversePathFilterIsNotRelaxed(t *testing.T) {
	n := newNode(t)
	for _, scope := range []string{"all", "default"} {
		n.Exec(t, "sysctl -qw net.ipv4.conf."+scope+".rp_filter=1")
	}
	v := openKernel(t, n)
	hosts := map[string]string{"tap1": "10.1.1.2", "tap2": "10.1.1.3"}
	for name, addr := range hosts {
		iface := tap(name)
		check(t, v.Interfaces().Create(t.Context(), iface))
		check(t, v.Routes().Create(t.Context(), &vpp_l3.Route{DstNetwork: addr + "/32", OutgoingInterface: name}))
		device := own.DeviceName(own.DevInterface, name)
		if got := sysctl(t, n, "net.ipv4.conf."+device+".rp_filter"); got != "1" {
			t.Errorf("rp_filter of %s is %s", device, got)
		}
	}
	check(t, v.Interfaces().AddAddress(t.Context(), "tap1", netip.MustParsePrefix("10.1.1.1/32")))
	check(t, v.Interfaces().AddAddress(t.Context(), "tap2", netip.MustParsePrefix("10.1.1.1/32")))
	pods := map[string]func(string) error{}
	for name, addr := range hosts {
		pod := n.Plug(t, models.TapHostIfName(name))
		for _, command := range []string{
			"ip link set dev eth0 up", fmt.Sprintf("ip addr add %s/32 dev eth0", addr),
			"ip route add 10.1.1.1/32 dev eth0 scope link", "ip route add default via 10.1.1.1 dev eth0",
		} {
			pod.Exec(t, command)
		}
		pods[name] = func(dst string) error { return pod.Ping(dst, 56, 5e9) }
	}
	if err := pods["tap1"](hosts["tap2"]); err != nil {
		t.Errorf("pod to pod: %v", err)
	}
}
