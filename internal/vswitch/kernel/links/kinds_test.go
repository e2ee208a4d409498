package links

import (
	"errors"
	"testing"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// Requests read back as the wanted value, whether or not this machine's kernel supports the device.
func TestRequestsForDevices(t *testing.T) {
	gre := func(typ vpp_interfaces.GreLink_Type, src, dst string) *vpp_interfaces.Interface {
		return &vpp_interfaces.Interface{Type: vpp_interfaces.Interface_GRE_TUNNEL, Link: &vpp_interfaces.Interface_Gre{
			Gre: &vpp_interfaces.GreLink{TunnelType: typ, SrcAddr: src, DstAddr: dst}}}
	}
	ipip := func(src, dst string) *vpp_interfaces.Interface {
		return &vpp_interfaces.Interface{Type: vpp_interfaces.Interface_IPIP_TUNNEL, Link: &vpp_interfaces.Interface_Ipip{
			Ipip: &vpp_interfaces.IPIPLink{SrcAddr: src, DstAddr: dst}}}
	}
	bond := func(mode vpp_interfaces.BondLink_Mode, lb vpp_interfaces.BondLink_LoadBalance) *vpp_interfaces.Interface {
		return &vpp_interfaces.Interface{Type: vpp_interfaces.Interface_BOND_INTERFACE, Link: &vpp_interfaces.Interface_Bond{
			Bond: &vpp_interfaces.BondLink{Id: 3, Mode: mode, Lb: lb}}}
	}
	for _, test := range []struct {
		kind  string
		iface *vpp_interfaces.Interface
	}{
		{"gre", gre(vpp_interfaces.GreLink_L3, "10.0.0.1", "10.0.0.2")},
		{"gretap", gre(vpp_interfaces.GreLink_TEB, "10.0.0.1", "10.0.0.2")},
		{"ip6gre", gre(vpp_interfaces.GreLink_L3, "fd00::0:1", "fd00::2")},
		{"ip6gretap", gre(vpp_interfaces.GreLink_TEB, "fd00::1", "FD00::2")},
		{"sit", ipip("10.0.0.1", "10.0.0.2")},
		{"ip6tnl", ipip("fd00::1", "fd00::2")},
		{"bond", bond(vpp_interfaces.BondLink_LACP, vpp_interfaces.BondLink_L34)},
		{"bond", bond(vpp_interfaces.BondLink_XOR, vpp_interfaces.BondLink_L23)},
		{"bond", bond(vpp_interfaces.BondLink_XOR, vpp_interfaces.BondLink_L2)},
		{"bond", bond(vpp_interfaces.BondLink_ACTIVE_BACKUP, vpp_interfaces.BondLink_AB)},
		{"bond", bond(vpp_interfaces.BondLink_ROUND_ROBIN, vpp_interfaces.BondLink_RR)},
		{"bond", bond(vpp_interfaces.BondLink_BROADCAST, vpp_interfaces.BondLink_BC)},
		{"vlan", &vpp_interfaces.Interface{Type: vpp_interfaces.Interface_SUB_INTERFACE, Link: &vpp_interfaces.Interface_Sub{
			Sub: &vpp_interfaces.SubInterface{ParentName: "parent", SubId: 4094, TagRwOption: vpp_interfaces.SubInterface_POP1}}}},
	} {
		iface := test.iface
		iface.Name, iface.Mtu, iface.Enabled = "x", 1400, true
		if err := supported(iface); err != nil {
			t.Errorf("%s: %v", test.kind, err)
		}
		kind, module := deviceKind(iface)
		if kind != test.kind || module == "" {
			t.Errorf("%v: kind %s of module %q, want %s", iface, kind, module, test.kind)
		}
		device := rtnl.NewLink{Name: "c-x", Kind: kind, Group: own.DeviceGroup, Mtu: iface.GetMtu(), Options: optionsWithoutParent(iface)}
		if iface.GetSub() != nil {
			device.Lower = 7
		}
		link := asKernelWouldSay(t, device)
		parent := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: "c-parent", Index: 7, MasterIndex: 9, Alias: own.AliasInterface + "parent"}}
		inv := &inventory{Devices: &own.Devices{ByIndex: map[int]netlink.Link{7: parent}}}
		found := &vpp_interfaces.Interface{}
		if !inv.describeKind(found, link, iface) {
			t.Fatalf("%s: a device of type %T", kind, link)
		}
		if found.GetType() != iface.GetType() || !proto.Equal(&vpp_interfaces.Interface{Link: found.GetLink()}, &vpp_interfaces.Interface{Link: iface.GetLink()}) {
			t.Errorf("%s: wanted %v, reads back as %v", kind, iface, found)
		}
		if attrs := link.Attrs(); attrs.Name != "c-x" || attrs.MTU != 1400 || attrs.Group != own.DeviceGroup {
			t.Errorf("%s: %v", kind, attrs)
		}
	}
}

func optionsWithoutParent(iface *vpp_interfaces.Interface) []rtnl.LinkOption {
	if sub := iface.GetSub(); sub != nil {
		return vlanOptions(sub)
	}
	_, options, _ := (*Driver)(nil).optionsOf(iface)
	return options
}

func asKernelWouldSay(t *testing.T, device rtnl.NewLink) netlink.Link {
	t.Helper()
	req := &nl.NetlinkRequest{}
	device.Write(req)
	var data []byte
	for _, part := range req.Data {
		data = append(data, part.Serialize()...)
	}
	link, err := netlink.LinkDeserialize(&unix.NlMsghdr{Type: unix.RTM_NEWLINK}, data)
	if err != nil {
		t.Fatal(err)
	}
	return link
}

func TestWhatDevicesCannotDo(t *testing.T) {
	for _, iface := range []*vpp_interfaces.Interface{
		{Type: vpp_interfaces.Interface_GRE_TUNNEL, Link: &vpp_interfaces.Interface_Gre{Gre: &vpp_interfaces.GreLink{TunnelType: vpp_interfaces.GreLink_ERSPAN}}},
		{Type: vpp_interfaces.Interface_GRE_TUNNEL, Link: &vpp_interfaces.Interface_Gre{Gre: &vpp_interfaces.GreLink{TunnelType: vpp_interfaces.GreLink_L3, OuterFibId: 1}}},
		{Type: vpp_interfaces.Interface_GRE_TUNNEL, Link: &vpp_interfaces.Interface_Gre{Gre: &vpp_interfaces.GreLink{TunnelType: vpp_interfaces.GreLink_L3, SessionId: 1}}},
		{Type: vpp_interfaces.Interface_GRE_TUNNEL, PhysAddress: "02:00:00:00:00:01", Link: &vpp_interfaces.Interface_Gre{Gre: &vpp_interfaces.GreLink{TunnelType: vpp_interfaces.GreLink_L3}}},
		{Type: vpp_interfaces.Interface_IPIP_TUNNEL, Link: &vpp_interfaces.Interface_Ipip{Ipip: &vpp_interfaces.IPIPLink{TunnelMode: vpp_interfaces.IPIPLink_POINT_TO_MULTIPOINT}}},
		{Type: vpp_interfaces.Interface_IPIP_TUNNEL, Vrf: 1, Link: &vpp_interfaces.Interface_Ipip{Ipip: &vpp_interfaces.IPIPLink{}}},
		{Type: vpp_interfaces.Interface_SUB_INTERFACE, Link: &vpp_interfaces.Interface_Sub{Sub: &vpp_interfaces.SubInterface{SubId: 4095}}},
		{Type: vpp_interfaces.Interface_SUB_INTERFACE, Link: &vpp_interfaces.Interface_Sub{Sub: &vpp_interfaces.SubInterface{SubId: 1, TagRwOption: vpp_interfaces.SubInterface_PUSH2}}},
		{Type: vpp_interfaces.Interface_BOND_INTERFACE, Link: &vpp_interfaces.Interface_Bond{Bond: &vpp_interfaces.BondLink{
			Mode: vpp_interfaces.BondLink_XOR, Lb: vpp_interfaces.BondLink_BC}}},
	} {
		if err := supported(iface); !errors.Is(err, kvscheduler.ErrUnsupported) {
			t.Errorf("%v: %v", iface, err)
		}
	}
}

func TestSpeedOfLinks(t *testing.T) {
	for _, test := range []struct {
		low, high uint16
		duplex    byte
		speed     uint64
		want      vpp_interfaces.InterfaceState_Duplex
	}{
		{10000, 0, 1, 10e9, vpp_interfaces.InterfaceState_FULL},
		{100, 0, 0, 100e6, vpp_interfaces.InterfaceState_HALF},
		{0x86a0, 1, 1, 100e9, vpp_interfaces.InterfaceState_FULL},
		{0xffff, 0, 0xff, 0, vpp_interfaces.InterfaceState_UNKNOWN_DUPLEX},
		{0xffff, 0xffff, 0xff, 0, vpp_interfaces.InterfaceState_UNKNOWN_DUPLEX},
	} {
		var cmd ethtoolCmd
		nl.NativeEndian().PutUint16(cmd[offsetSpeed:], test.low)
		nl.NativeEndian().PutUint16(cmd[offsetSpeedHigh:], test.high)
		cmd[offsetDuplex] = test.duplex
		if speed, duplex := cmd.settings(); speed != test.speed || duplex != test.want {
			t.Errorf("%v: %d, %v", test, speed, duplex)
		}
	}
}
