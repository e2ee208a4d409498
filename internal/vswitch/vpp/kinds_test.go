package vpp

import (
	"errors"
	"slices"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
	"github.com/contiv/contiv/kvscheduler"
	interfaces_api "go.fd.io/govpp/binapi/interface"
)

const privateKey = "gI6EdUSYvn8ugXOt8QQD6Yc+JyiZxIhp3GInSWRfWGE="

// kinds returns interfaces of all other kinds, in dependency order.
func kinds() []*vpp_interfaces.Interface {
	type i = vpp_interfaces.Interface
	sub := func(name string, s *vpp_interfaces.SubInterface) *i {
		return &i{Name: name, Type: vpp_interfaces.Interface_SUB_INTERFACE, Enabled: true, Link: &vpp_interfaces.Interface_Sub{Sub: s}}
	}
	gre := func(name string, g *vpp_interfaces.GreLink) *i {
		return &i{Name: name, Type: vpp_interfaces.Interface_GRE_TUNNEL, Enabled: true, Link: &vpp_interfaces.Interface_Gre{Gre: g}}
	}
	ipip := func(name string, g *vpp_interfaces.IPIPLink) *i {
		return &i{Name: name, Type: vpp_interfaces.Interface_IPIP_TUNNEL, Enabled: true, Link: &vpp_interfaces.Interface_Ipip{Ipip: g}}
	}
	bond := func(name string, b *vpp_interfaces.BondLink) *i {
		return &i{Name: name, Type: vpp_interfaces.Interface_BOND_INTERFACE, Enabled: true, Link: &vpp_interfaces.Interface_Bond{Bond: b}}
	}
	memif := func(name string, m *vpp_interfaces.MemifLink) *i {
		return &i{Name: name, Type: vpp_interfaces.Interface_MEMIF, Enabled: true, Link: &vpp_interfaces.Interface_Memif{Memif: m}}
	}
	plain := sub("plain", &vpp_interfaces.SubInterface{ParentName: "port", SubId: 7})
	plain.IpAddresses = []string{"10.7.0.1/24"}
	withMAC := bond("xor", &vpp_interfaces.BondLink{Id: 1, Mode: vpp_interfaces.BondLink_XOR, Lb: vpp_interfaces.BondLink_L34})
	withMAC.PhysAddress = "02:00:00:00:00:09"
	return []*i{
		afPacket("port", "v1port"), plain,
		sub("popped", &vpp_interfaces.SubInterface{ParentName: "port", SubId: 8, TagRwOption: vpp_interfaces.SubInterface_POP1}),
		sub("pushed", &vpp_interfaces.SubInterface{
			ParentName: "port", SubId: 9, TagRwOption: vpp_interfaces.SubInterface_PUSH2, PushDot1Q: true, Tag1: 100, Tag2: 200,
		}),
		// Sub-interfaces of a sub-interface have numbers in VPP that are no VLAN IDs.
		sub("inner", &vpp_interfaces.SubInterface{ParentName: "popped", SubId: 7, TagRwOption: vpp_interfaces.SubInterface_POP1}),
		sub("inner both", &vpp_interfaces.SubInterface{ParentName: "popped", SubId: 8, TagRwOption: vpp_interfaces.SubInterface_POP2}),
		sub("inner plain", &vpp_interfaces.SubInterface{ParentName: "plain", SubId: 7}),
		gre("gre", &vpp_interfaces.GreLink{TunnelType: vpp_interfaces.GreLink_L3, SrcAddr: "10.0.0.1", DstAddr: "10.0.0.2"}),
		gre("teb", &vpp_interfaces.GreLink{TunnelType: vpp_interfaces.GreLink_TEB, SrcAddr: "fd00::1", DstAddr: "fd00::2"}),
		gre("session of no use", &vpp_interfaces.GreLink{TunnelType: vpp_interfaces.GreLink_TEB, SrcAddr: "10.0.0.1", DstAddr: "10.0.0.3", SessionId: 7}),
		gre("erspan", &vpp_interfaces.GreLink{TunnelType: vpp_interfaces.GreLink_ERSPAN, SrcAddr: "10.0.0.1", DstAddr: "10.0.0.2", SessionId: 9}),
		ipip("ipip", &vpp_interfaces.IPIPLink{SrcAddr: "10.0.0.1", DstAddr: "10.0.0.2"}),
		ipip("multipoint", &vpp_interfaces.IPIPLink{TunnelMode: vpp_interfaces.IPIPLink_POINT_TO_MULTIPOINT, SrcAddr: "10.0.0.1"}),
		bond("backup", &vpp_interfaces.BondLink{Mode: vpp_interfaces.BondLink_ACTIVE_BACKUP}), withMAC,
		bond("lacp", &vpp_interfaces.BondLink{Id: 2, Mode: vpp_interfaces.BondLink_LACP, Lb: vpp_interfaces.BondLink_L23}),
		memif("memif", &vpp_interfaces.MemifLink{Master: true, Id: 3, Secret: "s3cret", RingSize: 512, RxQueues: 2}),
		memif("slave", &vpp_interfaces.MemifLink{Id: 4, SocketFilename: "v1/other.sock", Mode: vpp_interfaces.MemifLink_IP}),
		{
			Name: "wg", Type: vpp_interfaces.Interface_WIREGUARD_TUNNEL, Enabled: true,
			Link: &vpp_interfaces.Interface_Wireguard{Wireguard: &vpp_interfaces.WireguardLink{PrivateKey: privateKey, Port: 51820, SrcAddr: "10.0.0.1"}},
		},
	}
}

func TestAllKindsAreReadBackAsCreated(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		s.addDevice(t, "v1port")
		v := open(t, s)
		list := kinds()
		for range 2 {
			create(t, v, list...)
			wantInterfaces(t, v, list...)
		}
		v.Close()
		v = open(t, s)
		wantInterfaces(t, v, list...)

		// An untagged interface of an earlier attempt is found.
		for _, iface := range list[1:] {
			i, err := v.ifs.Index(t.Context(), iface.GetName())
			if err != nil {
				t.Fatal(err)
			}
			if iface.GetType() == vpp_interfaces.Interface_WIREGUARD_TUNNEL {
				continue // has no identity
			}
			if err := v.vpp.Call(t.Context(), session.Core, &interfaces_api.SwInterfaceTagAddDel{SwIfIndex: i}, &interfaces_api.SwInterfaceTagAddDelReply{}); err != nil {
				t.Fatal(err)
			}
		}
		v.Close()
		v = open(t, s)
		create(t, v, list...)
		wantInterfaces(t, v, list...)

		for range 2 {
			for _, iface := range slices.Backward(list) {
				remove(t, v, iface)
			}
		}
		wantInterfaces(t, v)
		if left, err := session.Dump[interfaces_api.SwInterfaceDetails](t.Context(), v.vpp, session.Core, &interfaces_api.SwInterfaceDump{SwIfIndex: ^ownership.Index(0)}); err != nil || len(left) != 1 {
			t.Errorf("left over: %v, error %v, want nothing but local0", left, err)
		}
	})
}

func TestBondMembersComeAndGo(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		s.addDevice(t, "v1one")
		s.addDevice(t, "v1two")
		v := open(t, s)
		one, two := afPacket("one", "v1one"), afPacket("two", "v1two")
		one.PhysAddress, two.PhysAddress = "02:00:00:00:00:01", "02:00:00:00:00:02"
		bond := &vpp_interfaces.Interface{
			Name: "bond", Type: vpp_interfaces.Interface_BOND_INTERFACE, Enabled: true,
			Link: &vpp_interfaces.Interface_Bond{Bond: &vpp_interfaces.BondLink{Mode: vpp_interfaces.BondLink_ROUND_ROBIN}},
		}
		create(t, v, one, two, bond)
		members := []*vpp_interfaces.BondLink_BondedInterface{{Name: "one"}, {Name: "two", IsPassive: true, IsLongTimeout: true}}
		for _, m := range members {
			for range 2 {
				if err := v.Interfaces().AddBondMember(t.Context(), "bond", m); err != nil {
					t.Fatal(err)
				}
			}
		}
		bond.GetBond().BondedInterfaces = members
		wantInterfaces(t, v, one, two, bond)

		changed := &vpp_interfaces.BondLink_BondedInterface{Name: "one", IsLongTimeout: true}
		if err := v.Interfaces().AddBondMember(t.Context(), "bond", changed); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := v.Interfaces().RemoveBondMember(t.Context(), "bond", members[1]); err != nil {
				t.Fatal(err)
			}
		}
		bond.GetBond().BondedInterfaces = []*vpp_interfaces.BondLink_BondedInterface{changed}
		wantInterfaces(t, v, one, two, bond)
	})
}

func TestVPPKnowsTwoTags(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		s.addDevice(t, "v1port")
		v := open(t, s)
		sub := func(name, parent string) *vpp_interfaces.Interface {
			return &vpp_interfaces.Interface{
				Name: name, Type: vpp_interfaces.Interface_SUB_INTERFACE, Enabled: true,
				Link: &vpp_interfaces.Interface_Sub{Sub: &vpp_interfaces.SubInterface{ParentName: parent, SubId: 5}},
			}
		}
		create(t, v, afPacket("port", "v1port"), sub("one", "port"), sub("two", "one"))
		if err := v.Interfaces().Create(t.Context(), sub("three", "two")); !errors.Is(err, kvscheduler.ErrUnsupported) {
			t.Errorf("three tags: got %v, want %v", err, kvscheduler.ErrUnsupported)
		}
	})
}

func TestKindsThatAreNotMadeSayWhatToUse(t *testing.T) {
	v := open(t, vpptest.New(t))
	for _, typ := range []vpp_interfaces.Interface_Type{
		vpp_interfaces.Interface_IPSEC_TUNNEL, vpp_interfaces.Interface_GTPU_TUNNEL, vpp_interfaces.Interface_VMXNET3_INTERFACE, vpp_interfaces.Interface_RDMA,
	} {
		err := v.Interfaces().Create(t.Context(), &vpp_interfaces.Interface{Name: "x", Type: typ})
		if !errors.Is(err, kvscheduler.ErrUnsupported) {
			t.Errorf("%v: got %v, want %v", typ, err, kvscheduler.ErrUnsupported)
		}
	}
}
