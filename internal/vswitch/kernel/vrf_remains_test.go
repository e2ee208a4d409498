package kernel

import (
	"errors"
	"strings"
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/contiv/contiv/kvscheduler"
	"golang.org/x/sys/unix"
)

// On kernels without VRF devices, values of VRFs other than 0 are refused with the reason.
func TestVRFsNeedVRFDevices(t *testing.T) {
	if hasVRFDevices() {
		t.Skip("this kernel has VRF devices; to run this: go test ./internal/vswitch/kernel -run TestVRFsNeedVRFDevices, on a kernel without CONFIG_NET_VRF")
	}
	n := newNode(t)
	before := n.Exec(t, "ip rule") + n.Exec(t, "ip -6 rule")
	v := openKernel(t, n)
	ctx := t.Context()
	inVRF := tap("a")
	inVRF.Vrf = 5
	moved := tap("b")
	check(t, v.Interfaces().Create(ctx, moved))
	into := tap("b")
	into.Vrf = 5
	for what, err := range map[string]error{
		"table":              v.VRFs().Create(ctx, &vpp_l3.VrfTable{Id: 5}),
		"table of IPv6":      v.VRFs().Create(ctx, &vpp_l3.VrfTable{Id: 5, Protocol: vpp_l3.VrfTable_IPV6}),
		"interface":          v.Interfaces().Create(ctx, inVRF),
		"existing interface": v.Interfaces().Update(ctx, moved, into),
	} {
		if !errors.Is(err, kvscheduler.ErrUnsupported) || !strings.Contains(err.Error(), "CONFIG_NET_VRF") {
			t.Errorf("%s: got %v, want %v that names CONFIG_NET_VRF", what, err, kvscheduler.ErrUnsupported)
		}
	}
	for what, err := range map[string]error{
		"interface in a VRF":     v.Interfaces().SetVRF(ctx, "b", 5, vswitch.IPVersions{V4: true}),
		"route in a VRF":         v.Routes().Create(ctx, &vpp_l3.Route{VrfId: 5, DstNetwork: "10.9.0.0/16", OutgoingInterface: "b"}),
		"route into a VRF":       v.Routes().Create(ctx, &vpp_l3.Route{Type: vpp_l3.Route_INTER_VRF, ViaVrfId: 5, DstNetwork: "10.9.0.0/16"}),
		"VRF 0":                  ignored(v.VRFs().Create(ctx, &vpp_l3.VrfTable{})),
		"deletion of a table":    ignored(v.VRFs().Delete(ctx, &vpp_l3.VrfTable{Id: 5})),
		"address in VRF 0":       ignored(v.Interfaces().AddAddress(ctx, "b", mustPrefix("10.9.0.1/24"))),
		"deletion of the device": ignored(v.Interfaces().Delete(ctx, inVRF)),
	} {
		if err == nil || !errors.Is(err, errNone) && !strings.Contains(err.Error(), "VRF 5") {
			t.Errorf("%s: got %v", what, err)
		}
	}
	list, err := v.VRFs().List(ctx, []*vpp_l3.VrfTable{{}, {Id: 5}})
	check(t, err)
	if len(list) != 1 || list[0].GetId() != 0 {
		t.Errorf("listed as %v, want only VRF 0", list)
	}
	if after := n.Exec(t, "ip rule") + n.Exec(t, "ip -6 rule"); after != before {
		t.Errorf("rules were\n%sand are\n%s", before, after)
	}
}

var errNone = errors.New("none")

// ignored returns errNone for success.
func ignored(err error) error {
	if err == nil {
		return errNone
	}
	return err
}

// Rules, marks, routes and addresses of versions that emulated VRFs are removed at the start.
// Devices in such VRFs are down, so that they do not enter VRF 0.
func TestEmulatedVRFsAreRemoved(t *testing.T) {
	n := newNode(t)
	n.Exec(t, "ip link set dev eth0 up")
	n.Exec(t, "ip addr add 10.7.0.1/24 dev eth0")
	n.Exec(t, "ip rule add pref 50 from 10.200.0.0/24 lookup 77")
	n.Exec(t, "ip rule add pref 1100500000 fwmark 0x7 lookup 77")
	n.Exec(t, "ip route add throw 10.8.0.0/16 table 77 proto 121")
	v := openKernel(t, n)
	iface := tap("a")
	check(t, v.Interfaces().Create(t.Context(), iface))
	state := func() string {
		all := ""
		for _, command := range []string{
			"ip rule", "ip -6 rule", "ip route show table all", "ip -6 route show table all", "ip -o addr show dev eth0", "nft list tables",
		} {
			for line := range strings.Lines(n.Exec(t, command)) {
				if !strings.Contains(line, "c-a") && !strings.Contains(line, "fe80:") && !strings.Contains(line, "multicast") {
					all += strings.ReplaceAll(line, " proto kernel", "")
				}
			}
		}
		return all
	}
	before := state()
	for _, version := range []string{"-4", "-6"} {
		for _, rule := range []string{
			"100 lookup local", "90 fwmark 0x79000005/0xff003fff goto 1100500000", "90 iif c-a goto 1100500000", "90 oif c-a goto 1100500000",
			"91 iif c-a lookup 121000005 type unreachable", "91 iif eth0 lookup 121000005 type unreachable", "90 iif eth0 goto 1100500000",
			"1100000001 lookup local", "1100099999 type unreachable", "1100500000 lookup 121000005", "1100599999 type unreachable",
		} {
			n.Exec(t, "ip "+version+" rule add protocol 121 pref "+rule)
		}
		n.Exec(t, "ip "+version+" rule del pref 0")
		n.Exec(t, "ip "+version+" route add throw default table 121000005 proto 121")
	}
	n.Exec(t, "ip -6 rule add protocol 121 pref 80 to fe80::/10 lookup local")
	for _, name := range []string{"c-a", "eth0"} {
		link, err := v.Net.LinkByName(name)
		check(t, err)
		check(t, v.Net.AddAddress(rtnl.Address{Index: link.Attrs().Index, Prefix: mustPrefix("10.50.0.9/24"), Flags: unix.IFA_F_NOPREFIXROUTE, Proto: own.ProtoOurs}))
	}
	n.Exec(t, "ip route add local 10.50.0.9 dev c-a table 121000005 proto 125")
	n.Exec(t, "ip route add 10.50.0.0/24 dev c-a table 121000005 proto 125")
	n.Exec(t, "ip route add throw 10.50.0.0/24 proto 121")
	n.Exec(t, "nft add table inet contiv-vrf")
	n.Exec(t, "nft add table arp contiv-vrf")

	v.Close()

	v = openKernel(t, n)
	if after := state(); after != before {
		t.Errorf("the host was\n%sand is\n%s", before, after)
	}
	if link := n.Exec(t, "ip -o link show dev c-a"); strings.Contains(link, ",UP") {
		t.Errorf("the device is up: %s", link)
	}
	if link := n.Exec(t, "ip -o link show dev eth0"); !strings.Contains(link, ",UP") {
		t.Errorf("the device of the host is down: %s", link)
	}
	if addr := n.Exec(t, "ip -o -4 addr show dev c-a"); addr != "" {
		t.Errorf("addresses are left: %s", addr)
	}
	check(t, v.Interfaces().Update(t.Context(), iface, iface))
	if link := n.Exec(t, "ip -o link show dev c-a"); !strings.Contains(link, ",UP") {
		t.Errorf("in VRF 0, the device stays down: %s", link)
	}
	list, err := v.Interfaces().List(t.Context(), []*vpp_interfaces.Interface{iface})
	check(t, err)
	if len(list) != 1 || list[0].GetVrf() != 0 {
		t.Errorf("listed as %v", list)
	}
}
