package interfaces

import (
	"slices"
	"strings"
	"testing"

	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor/descriptortest"
	"github.com/contiv/contiv/models"
)

type iface = vpp_interfaces.Interface

func tunnel(src, dst string) *iface {
	return &iface{Name: "t", Type: vpp_interfaces.Interface_VXLAN_TUNNEL, Link: &vpp_interfaces.Interface_Vxlan{
		Vxlan: &vpp_interfaces.VxlanLink{SrcAddress: src, DstAddress: dst, Vni: 10},
	}}
}

func tapIn(typ linux_namespace.NetNamespace_ReferenceType, reference string) *vpp_interfaces.Interface_Tap {
	return &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{
		HostNamespace: &linux_namespace.NetNamespace{Type: typ, Reference: reference},
	}}
}

func TestInterfaceValidation(t *testing.T) {
	loop := vpp_interfaces.Interface_SOFTWARE_LOOPBACK
	for _, test := range []struct {
		value *iface
		field string // "" for valid values
	}{
		{&iface{Name: "l", Type: loop}, ""},
		{&iface{Name: "t", Type: vpp_interfaces.Interface_TAP}, ""},
		{tunnel("10.0.0.1", "10.0.0.2"), ""},
		{tunnel("fd00::1", "fd00::2"), ""},
		{&iface{Type: loop}, "name"},
		{&iface{Name: strings.Repeat("x", 64), Type: loop}, "name"},
		{&iface{Name: "l"}, "type"},
		{&iface{Name: "l", Type: loop, IpAddresses: []string{"10.0.0.1"}}, "ip_addresses"},
		{&iface{Name: "l", Type: loop, IpAddresses: []string{"alloc:net", "alloc:other/l"}}, ""},
		{&iface{Name: "l", Type: loop, IpAddresses: []string{"alloc:net", "alloc:net/l"}}, "ip_addresses"},
		{&iface{Name: "l", Type: loop, IpAddresses: []string{"alloc:net/x"}}, "ip_addresses"},
		{&iface{Name: "l", Type: loop, IpAddresses: []string{"alloc:net/l/GW"}}, "ip_addresses"},
		{&iface{Name: "l", Type: loop, PhysAddress: "02:00"}, "phys_address"},
		{&iface{Name: "l", Type: loop, PhysAddress: "01:00:5e:00:00:01"}, "phys_address"},
		{&iface{Name: "l", Type: loop, Mtu: 9217}, "mtu"},
		{&iface{Name: "l", Type: loop, Link: &vpp_interfaces.Interface_Tap{}}, "link"},
		{&iface{Name: "m", Type: vpp_interfaces.Interface_MEMIF}, "link"},
		{&iface{Name: "l", Type: loop, Unnumbered: &vpp_interfaces.Interface_Unnumbered{}}, "unnumbered"},
		{&iface{Name: "l", Type: loop, Unnumbered: &vpp_interfaces.Interface_Unnumbered{InterfaceWithIp: "l"}}, "unnumbered"},
		{&iface{Name: "l", Type: loop, Unnumbered: &vpp_interfaces.Interface_Unnumbered{InterfaceWithIp: "x"}, SetDhcpClient: true}, "set_dhcp_client"},
		{&iface{
			Name: "l", Type: loop, Unnumbered: &vpp_interfaces.Interface_Unnumbered{InterfaceWithIp: "x"}, IpAddresses: []string{"10.0.0.1/8"},
		}, "ip_addresses"},
		{&iface{Name: "t", Type: vpp_interfaces.Interface_TAP, Link: &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{Version: 1}}}, "tap.version"},
		{&iface{Name: "t", Type: vpp_interfaces.Interface_TAP, Link: tapIn(linux_namespace.NetNamespace_FD, "/proc/1/ns/net")}, ""},
		{&iface{Name: "t", Type: vpp_interfaces.Interface_TAP, Link: tapIn(linux_namespace.NetNamespace_FD, "relative")}, "tap.host_namespace"},
		{&iface{Name: "t", Type: vpp_interfaces.Interface_TAP, Link: tapIn(linux_namespace.NetNamespace_PID, "0")}, "tap.host_namespace"},
		{&iface{Name: "t", Type: vpp_interfaces.Interface_TAP, Link: tapIn(linux_namespace.NetNamespace_NSID, "a/b")}, "tap.host_namespace"},
		{&iface{Name: "a", Type: vpp_interfaces.Interface_AF_PACKET, Link: &vpp_interfaces.Interface_Afpacket{}}, "afpacket"},
		{tunnel("", "10.0.0.2"), "vxlan.src_address"},
		{tunnel("10.0.0.1", "x"), "vxlan.dst_address"},
		{tunnel("10.0.0.1", "fd00::1"), "vxlan.dst_address"},
		{tunnel("10.0.0.1", "10.0.0.1"), "vxlan.dst_address"},
	} {
		descriptortest.WantInvalid(t, test.value, validateInterface(test.value), test.field)
	}
}

func TestDerivedOfInterface(t *testing.T) {
	for _, test := range []struct {
		value *iface
		keys  []string
	}{
		{&iface{Name: "if"}, nil},
		{&iface{Name: "Gig0/9/0", Vrf: 3, IpAddresses: []string{"10.0.0.1/24", "FD00::1/64", "fd00::1/64"}}, []string{
			"vpp/interface/Gig0/9/0/address/static/10.0.0.1/24",
			"vpp/interface/Gig0/9/0/address/static/fd00::1/64",
			"vpp/interface/Gig0/9/0/vrf/3/ip-version/v4",
			"vpp/interface/Gig0/9/0/vrf/3/ip-version/v6",
			"vpp/interface/Gig0/9/0/has-IP-address",
		}},
		{&iface{Name: "if", Unnumbered: &vpp_interfaces.Interface_Unnumbered{InterfaceWithIp: "Gig0/9/0"}}, []string{
			"vpp/interface/if/vrf/from-interface/Gig0/9/0", "vpp/interface/unnumbered/if",
		}},
		{tunnel("fd00::1", "fd00::2"), []string{"vpp/interface/t/vrf/0/ip-version/v6"}},
	} {
		var keys []string
		for _, kv := range derivedOfInterface(test.value) {
			keys = append(keys, kv.Key)
		}
		if !slices.Equal(keys, test.keys) {
			t.Errorf("%v: got %v, want %v", test.value, keys, test.keys)
		}
	}
}

// The kernel reports addresses in its own order.
func TestHasAddressEquivalence(t *testing.T) {
	old := &iface{Name: "if", IpAddresses: []string{"fd00::1/64", "10.0.0.1/24"}}
	for _, test := range []struct {
		name string
		new  *iface
		want bool
	}{
		{"another order", &iface{Name: "if", IpAddresses: []string{"10.0.0.1/24", "fd00::1/64"}}, true},
		{"another notation", &iface{Name: "if", IpAddresses: []string{"FD00:0::1/64", "10.0.0.1/24"}}, true},
		{"another address", &iface{Name: "if", IpAddresses: []string{"fd00::1/64", "10.0.0.2/24"}}, false},
		{"an address less", &iface{Name: "if", IpAddresses: []string{"10.0.0.1/24"}}, false},
		{"another VRF", &iface{Name: "if", Vrf: 1, IpAddresses: old.IpAddresses}, false},
		{"DHCP", &iface{Name: "if", SetDhcpClient: true, IpAddresses: old.IpAddresses}, false},
	} {
		equivalent := hasAddressDescriptor().Equivalent
		if equivalent == nil || equivalent(models.VPPInterfaceHasAddressKey("if"), addressing(old), addressing(test.new)) != test.want {
			t.Errorf("%s: want equivalent %v", test.name, test.want)
		}
	}
}

// Each derived key belongs to one descriptor, even with interface names that look like other keys.
func TestDerivedKeysAreDistinct(t *testing.T) {
	for _, name := range []string{"if", "Gig0/9/0", "unnumbered", "a/vrf/b", "address"} {
		for kind, key := range map[string]string{
			"address":    models.VPPInterfaceAddressKey(name, models.AddrStatic, "10.0.0.1/24"),
			"vrf":        models.VPPInterfaceVRFKey(name, 1, "v4"),
			"inherited":  models.VPPInterfaceInheritedVRFKey(name, "Gig0/9/0"),
			"hasAddress": models.VPPInterfaceHasAddressKey(name),
			"unnumbered": models.UnnumberedInterfaceKey(name),
		} {
			n := 0
			for _, matches := range []bool{isAddressKey(key), isVRFKey(key), isHasAddressKey(key), isUnnumberedKey(key)} {
				if matches {
					n++
				}
			}
			if n != 1 && !strings.Contains(name, "/vrf/") {
				t.Errorf("%s key %s belongs to %d descriptors", kind, key, n)
			}
		}
	}
	k, err := parseVRFKey(models.VPPInterfaceInheritedVRFKey("tap", "Gig0/9/0"))
	if err != nil || k.iface != "tap" || k.lender != "Gig0/9/0" {
		t.Errorf("inherited VRF key: %+v %v", k, err)
	}
	if name, addr, ok := parseAddressKey(models.VPPInterfaceAddressKey("Gig0/9/0", models.AddrStatic, "fd00::1/64")); !ok ||
		name != "Gig0/9/0" || addr != "fd00::1/64" {
		t.Errorf("address key: %s %s %v", name, addr, ok)
	}
}

func TestInterfaceEquivalenceAndRecreation(t *testing.T) {
	base := func(edit func(*iface)) *iface {
		v := &iface{
			Name: "t", Type: vpp_interfaces.Interface_TAP, Enabled: true, PhysAddress: "02:00:00:00:00:aa", Mtu: 1500,
			IpAddresses: []string{"10.0.0.1/24", "fd00::1/64"},
			Link:        &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{Version: 2}},
		}
		edit(v)
		return v
	}
	tap := func(v *iface) *vpp_interfaces.TapLink { return v.GetTap() }
	for _, test := range []struct {
		name                 string
		edit                 func(*iface)
		equivalent, recreate bool
	}{
		{"nothing", func(*iface) {}, true, false},
		{"MAC in other letters", func(v *iface) { v.PhysAddress = "02:00:00:00:00:AA" }, true, false},
		{"any MAC", func(v *iface) { v.PhysAddress = "" }, true, false},
		{"any MTU", func(v *iface) { v.Mtu = 0 }, true, false},
		{"order of addresses", func(v *iface) { v.IpAddresses = []string{"FD00::1/64", "10.0.0.1/24"} }, true, false},
		{"default host name", func(v *iface) { tap(v).HostIfName = models.TapHostIfName("t") }, true, false},
		{"default version", func(v *iface) { tap(v).Version = 0 }, true, false},
		{"undefined host namespace", func(v *iface) {
			tap(v).HostNamespace = tapIn(linux_namespace.NetNamespace_UNDEFINED, "").Tap.HostNamespace
		}, true, false},
		{"host namespace", func(v *iface) {
			tap(v).HostNamespace = tapIn(linux_namespace.NetNamespace_FD, "/x").Tap.HostNamespace
		}, false, true},
		{"MAC", func(v *iface) { v.PhysAddress = "02:00:00:00:00:bb" }, false, false},
		{"MTU", func(v *iface) { v.Mtu = 1400 }, false, false},
		{"state", func(v *iface) { v.Enabled = false }, false, false},
		{"address", func(v *iface) { v.IpAddresses = v.IpAddresses[:1] }, false, false},
		{"VRF", func(v *iface) { v.Vrf = 1 }, false, false},
		{"host name", func(v *iface) { tap(v).HostIfName = "other" }, false, true},
		{"type", func(v *iface) { v.Type, v.Link = vpp_interfaces.Interface_SOFTWARE_LOOPBACK, nil }, false, true},
	} {
		old, new := base(func(*iface) {}), base(test.edit)
		if got := equivalentInterfaces(old, new); got != test.equivalent {
			t.Errorf("%s: equivalent %v, want %v", test.name, got, test.equivalent)
		}
		if got := needsNewInterface(old, new); got != test.recreate {
			t.Errorf("%s: re-creation %v, want %v", test.name, got, test.recreate)
		}
	}
}
