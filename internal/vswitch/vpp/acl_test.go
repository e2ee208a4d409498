package vpp

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/kvscheduler"
	"go.fd.io/govpp/binapi/acl"
	"go.fd.io/govpp/binapi/acl_types"
	"google.golang.org/protobuf/proto"
)

func everyRule() []*vpp_acl.ACL_Rule {
	ports := func(first, last uint32) *vpp_acl.ACL_Rule_IpRule_PortRange {
		return &vpp_acl.ACL_Rule_IpRule_PortRange{LowerPort: first, UpperPort: last}
	}
	icmp := func(first, last uint32) *vpp_acl.ACL_Rule_IpRule_Icmp_Range {
		return &vpp_acl.ACL_Rule_IpRule_Icmp_Range{First: first, Last: last}
	}
	return []*vpp_acl.ACL_Rule{
		{Action: vpp_acl.ACL_Rule_PERMIT, IpRule: &vpp_acl.ACL_Rule_IpRule{Ip: &vpp_acl.ACL_Rule_IpRule_Ip{SourceNetwork: "10.1.2.3/16", DestinationNetwork: "10.2.0.0/32"}}},
		{Action: vpp_acl.ACL_Rule_DENY, IpRule: &vpp_acl.ACL_Rule_IpRule{
			Ip:  &vpp_acl.ACL_Rule_IpRule_Ip{DestinationNetwork: "fd00::/65"},
			Tcp: &vpp_acl.ACL_Rule_IpRule_Tcp{SourcePortRange: ports(1, 65535), DestinationPortRange: ports(80, 80), TcpFlagsMask: 18, TcpFlagsValue: 2},
		}},
		{Action: vpp_acl.ACL_Rule_REFLECT, IpRule: &vpp_acl.ACL_Rule_IpRule{Udp: &vpp_acl.ACL_Rule_IpRule_Udp{DestinationPortRange: ports(53, 54)}}},
		{Action: vpp_acl.ACL_Rule_PERMIT, IpRule: &vpp_acl.ACL_Rule_IpRule{Icmp: &vpp_acl.ACL_Rule_IpRule_Icmp{IcmpTypeRange: icmp(3, 8), IcmpCodeRange: icmp(0, 1)}}},
		{Action: vpp_acl.ACL_Rule_PERMIT, IpRule: &vpp_acl.ACL_Rule_IpRule{Icmp: &vpp_acl.ACL_Rule_IpRule_Icmp{Icmpv6: true, IcmpTypeRange: icmp(128, 129)}}},
		{Action: vpp_acl.ACL_Rule_DENY, IpRule: &vpp_acl.ACL_Rule_IpRule{Ip: &vpp_acl.ACL_Rule_IpRule_Ip{Protocol: 50}}},
		{Action: vpp_acl.ACL_Rule_PERMIT, IpRule: &vpp_acl.ACL_Rule_IpRule{}},
	}
}

func macipRule(action vpp_acl.ACL_Rule_Action, addr string, bits uint32, mac, mask string) *vpp_acl.ACL_Rule {
	return &vpp_acl.ACL_Rule{Action: action, MacipRule: &vpp_acl.ACL_Rule_MacIpRule{
		SourceAddress: addr, SourceAddressPrefix: bits, SourceMacAddress: mac, SourceMacAddressMask: mask,
	}}
}

func permitAll() *vpp_acl.ACL_Rule {
	return &vpp_acl.ACL_Rule{Action: vpp_acl.ACL_Rule_PERMIT, IpRule: &vpp_acl.ACL_Rule_IpRule{}}
}

func putACL(t testing.TB, v *VSwitch, list *vpp_acl.ACL) {
	t.Helper()
	if err := v.ACLs().Create(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for _, iface := range list.GetInterfaces().GetIngress() {
		bindACL(t, v, list.GetName(), iface, false)
	}
	for _, iface := range list.GetInterfaces().GetEgress() {
		bindACL(t, v, list.GetName(), iface, true)
	}
}

func bindACL(t testing.TB, v *VSwitch, name, iface string, egress bool) {
	t.Helper()
	if err := v.ACLs().Bind(t.Context(), vswitch.ACLBinding{ACL: name, Interface: iface, Egress: egress}); err != nil {
		t.Fatal(err)
	}
}

func accessList(name string, in, out []string, rules ...*vpp_acl.ACL_Rule) *vpp_acl.ACL {
	return &vpp_acl.ACL{Name: name, Rules: rules, Interfaces: &vpp_acl.ACL_Interfaces{Ingress: in, Egress: out}}
}

// wantACLs checks the listed lists, with and without expected lists.
func wantACLs(t testing.TB, v *VSwitch, want ...*vpp_acl.ACL) {
	t.Helper()
	for _, expected := range [][]*vpp_acl.ACL{want, nil} {
		found, err := v.ACLs().List(t.Context(), expected)
		if err != nil {
			t.Fatal(err)
		}
		byName := map[string]*vpp_acl.ACL{}
		for _, f := range found {
			slices.Sort(f.GetInterfaces().GetIngress())
			slices.Sort(f.GetInterfaces().GetEgress())
			byName[f.GetName()] = f
		}
		for _, w := range want {
			f := byName[w.GetName()]
			delete(byName, w.GetName())
			switch {
			case f == nil:
				t.Errorf("%s is not found (expected: %v)", w.GetName(), expected != nil)
			case !proto.Equal(f.GetInterfaces(), w.GetInterfaces()):
				t.Errorf("%s is bound to %v, want %v", w.GetName(), f.GetInterfaces(), w.GetInterfaces())
			case expected != nil && !proto.Equal(f, w):
				t.Errorf("found %v, want %v", f, w)
			case !vswitch.IsMACIP(w) && !vswitch.SameACLRules(f, w):
				t.Errorf("%s has rules %v, want %v", w.GetName(), f.GetRules(), w.GetRules())
			}
		}
		for name := range byName {
			t.Errorf("%s is found", name)
		}
	}
}

// sequence returns the tags of the lists on an interface in VPP.
func sequence(t testing.TB, v *VSwitch, iface string) (in, out []string) {
	t.Helper()
	i, err := v.ifs.Index(t.Context(), iface)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := session.Dump[acl.ACLDetails](t.Context(), v.vpp, session.Core, &acl.ACLDump{ACLIndex: ^uint32(0)})
	if err != nil {
		t.Fatal(err)
	}
	tags := map[uint32]string{}
	for _, l := range lists {
		tags[l.ACLIndex] = l.Tag
	}
	bound, err := session.Dump[acl.ACLInterfaceListDetails](t.Context(), v.vpp, session.Core, &acl.ACLInterfaceListDump{SwIfIndex: i})
	if err != nil || len(bound) != 1 {
		t.Fatal(bound, err)
	}
	for n, id := range bound[0].Acls {
		if n < int(bound[0].NInput) {
			in = append(in, tags[id])
		} else {
			out = append(out, tags[id])
		}
	}
	return in, out
}

func TestAccessListsAreReadBackAsCreated(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		create(t, v, loopback("a"), loopback("b"))
		lists := []*vpp_acl.ACL{
			accessList("all kinds/1", []string{"a"}, []string{"a", "b"}, everyRule()...),
			accessList("none", nil, nil),
			accessList(strings.Repeat("long", 15), []string{"a", "b"}, nil, permitAll()),
			accessList("macs", []string{"b"}, nil, macipRule(vpp_acl.ACL_Rule_PERMIT, "10.1.1.1", 32, "02:00:00:00:00:01", ""), macipRule(vpp_acl.ACL_Rule_DENY, "", 0, "", "")),
		}
		for range 2 {
			for _, l := range lists {
				putACL(t, v, l)
			}
			if found, err := v.ACLs().List(t.Context(), lists); err != nil || len(found) != len(lists) {
				t.Errorf("found %v, %v", found, err)
			}
		}
		v.Close()
		v = open(t, s)
		found, err := v.ACLs().List(t.Context(), lists)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			slices.Sort(f.GetInterfaces().GetEgress())
			slices.Sort(f.GetInterfaces().GetIngress())
			if !slices.ContainsFunc(lists, func(l *vpp_acl.ACL) bool { return proto.Equal(l, f) }) {
				t.Errorf("found %v", f)
			}
		}
		changed := proto.CloneOf(lists[0])
		changed.Rules = changed.Rules[1:]
		if err := v.ACLs().Update(t.Context(), lists[0], changed); err != nil {
			t.Fatal(err)
		}
		wantRest := []*vpp_acl.ACL{changed, lists[1], lists[3]}
		if err := v.ACLs().Delete(t.Context(), lists[2]); err != nil { // while it is bound
			t.Fatal(err)
		}
		wantACLs(t, v, wantRest...)
		// An unexpected list can be deleted in its listed form.
		putACL(t, v, lists[2])
		v.Close()
		v = open(t, s)
		if found, err = v.ACLs().List(t.Context(), nil); err != nil || len(found) != len(lists) {
			t.Fatalf("found %v, %v", found, err)
		}
		for range 2 {
			for _, f := range found {
				for _, iface := range f.GetInterfaces().GetIngress() {
					if err := v.ACLs().Unbind(t.Context(), vswitch.ACLBinding{ACL: f.GetName(), Interface: iface}); err != nil {
						t.Error(err)
					}
				}
				if err := v.ACLs().Delete(t.Context(), f); err != nil {
					t.Error(err)
				}
			}
		}
		left, err := session.Dump[acl.ACLDetails](t.Context(), v.vpp, session.Core, &acl.ACLDump{ACLIndex: ^uint32(0)})
		if err != nil || len(left) > 0 {
			t.Errorf("left in VPP: %v, %v", left, err)
		}
	})
}

func TestAccessListsKeepTheOrderOfTheirNamesAndThoseOfOthers(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		create(t, v, loopback("a"))
		foreign := func(tag string) uint32 {
			var reply acl.ACLAddReplaceReply
			if err := v.vpp.Call(t.Context(), session.Core, &acl.ACLAddReplace{ACLIndex: ^uint32(0), Tag: tag, R: []acl_types.ACLRule{{IsPermit: acl_types.ACL_ACTION_API_PERMIT}}}, &reply); err != nil {
				t.Fatal(err)
			}
			return reply.ACLIndex
		}
		first, last := foreign("by hand"), foreign("")
		i, err := v.ifs.Index(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		bind := func(ids ...uint32) {
			t.Helper()
			if err := v.vpp.Call(t.Context(), session.Core, &acl.ACLInterfaceSetACLList{SwIfIndex: i, NInput: uint8(len(ids)), Acls: ids}, &acl.ACLInterfaceSetACLListReply{}); err != nil {
				t.Fatal(err)
			}
		}
		want := func(in ...string) {
			t.Helper()
			if got, _ := sequence(t, v, "a"); !slices.Equal(got, in) {
				t.Errorf("on the interface are %q, want %q", got, in)
			}
		}
		bind(first)
		putACL(t, v, accessList("b", []string{"a"}, nil, permitAll()))
		want("by hand", neighbourDiscovery, "contiv/b")
		now, err := session.Dump[acl.ACLInterfaceListDetails](t.Context(), v.vpp, session.Core, &acl.ACLInterfaceListDump{SwIfIndex: i})
		if err != nil {
			t.Fatal(err)
		}
		bind(append(now[0].Acls, last)...)
		putACL(t, v, accessList("c", []string{"a"}, []string{"a"}, permitAll()))
		putACL(t, v, accessList("a", []string{"a"}, nil, permitAll()))
		want("by hand", neighbourDiscovery, "contiv/a", "contiv/b", "contiv/c", "")
		lists := []*vpp_acl.ACL{
			accessList("a", []string{"a"}, nil, permitAll()), accessList("b", []string{"a"}, nil, permitAll()), accessList("c", []string{"a"}, []string{"a"}, permitAll()),
		}
		wantACLs(t, v, lists...)
		// Lists in another order count as unbound until they are bound again.
		now, err = session.Dump[acl.ACLInterfaceListDetails](t.Context(), v.vpp, session.Core, &acl.ACLInterfaceListDump{SwIfIndex: i})
		if err != nil {
			t.Fatal(err)
		}
		in := now[0].Acls[:now[0].NInput]
		in[2], in[4] = in[4], in[2]
		bind(in...)
		wantACLs(t, v, accessList("a", nil, nil, permitAll()), accessList("b", nil, nil, permitAll()), accessList("c", nil, nil, permitAll()))
		bindACL(t, v, "b", "a", false)
		want("by hand", neighbourDiscovery, "contiv/a", "contiv/b", "contiv/c", "")

		for _, l := range lists {
			if err := v.ACLs().Delete(t.Context(), l); err != nil {
				t.Fatal(err)
			}
		}
		want("by hand", "")
		wantACLs(t, v)
	})
}

func TestAccessListsOfAnInterfaceThatIsGone(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		create(t, v, loopback("a"))
		putACL(t, v, accessList("l", []string{"a"}, []string{"a"}, permitAll()))
		putACL(t, v, accessList("macs", []string{"a"}, nil, macipRule(vpp_acl.ACL_Rule_PERMIT, "", 0, "", "")))
		if err := v.Interfaces().Delete(t.Context(), loopback("a")); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"l", "macs"} {
			if err := v.ACLs().Unbind(t.Context(), vswitch.ACLBinding{ACL: name, Interface: "a"}); err != nil {
				t.Error(err)
			}
		}
		err := v.ACLs().Bind(t.Context(), vswitch.ACLBinding{ACL: "l", Interface: "a"})
		if err == nil || !strings.Contains(err.Error(), `"l"`) {
			t.Errorf("got %v, want an error that names the list", err)
		}
		create(t, v, loopback("a"))
		if err := v.ACLs().Bind(t.Context(), vswitch.ACLBinding{ACL: "m", Interface: "a"}); err == nil {
			t.Error("a list that does not exist is bound")
		}
		wantACLs(t, v, accessList("l", nil, nil, permitAll()), accessList("macs", nil, nil, macipRule(vpp_acl.ACL_Rule_PERMIT, "", 0, "", "")))
	})
}

func TestOneMACIPListOfAnInterface(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		create(t, v, loopback("a"))
		rule := macipRule(vpp_acl.ACL_Rule_PERMIT, "", 0, "", "")
		putACL(t, v, accessList("one", []string{"a"}, nil, rule))
		putACL(t, v, accessList("two", nil, nil, rule))
		err := v.ACLs().Bind(t.Context(), vswitch.ACLBinding{ACL: "two", Interface: "a"})
		if !errors.Is(err, kvscheduler.ErrUnsupported) || !strings.Contains(err.Error(), `"one"`) {
			t.Errorf("got %v, want %v that names the other list", err, kvscheduler.ErrUnsupported)
		}
		if err := v.ACLs().Delete(t.Context(), accessList("one", nil, nil, rule)); err != nil {
			t.Fatal(err)
		}
		bindACL(t, v, "two", "a", false)
		wantACLs(t, v, accessList("two", []string{"a"}, nil, rule))
	})
}

// neighbourDiscovery is the tag of the driver's first list.
const neighbourDiscovery = "contiv:neighbour-discovery"
