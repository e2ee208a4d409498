package acl

import (
	"net/netip"
	"testing"

	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor/descriptortest"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

type (
	rule   = vpp_acl.ACL_Rule
	ipRule = vpp_acl.ACL_Rule_IpRule
	ipNet  = vpp_acl.ACL_Rule_IpRule_Ip
	ports  = vpp_acl.ACL_Rule_IpRule_PortRange
	tcp    = vpp_acl.ACL_Rule_IpRule_Tcp
	udp    = vpp_acl.ACL_Rule_IpRule_Udp
	icmp   = vpp_acl.ACL_Rule_IpRule_Icmp
	types  = vpp_acl.ACL_Rule_IpRule_Icmp_Range
	macIP  = vpp_acl.ACL_Rule_MacIpRule
)

func TestACLValidation(t *testing.T) {
	with := func(rules ...*rule) *vpp_acl.ACL { return &vpp_acl.ACL{Name: "l", Rules: rules} }
	ip := func(r *ipRule) *vpp_acl.ACL { return with(&rule{IpRule: r}) }
	mac := func(m *macIP) *vpp_acl.ACL { return with(&rule{MacipRule: m}) }
	on := func(acl *vpp_acl.ACL, ingress, egress []string) *vpp_acl.ACL {
		acl.Interfaces = &vpp_acl.ACL_Interfaces{Ingress: ingress, Egress: egress}
		return acl
	}
	for _, test := range []struct {
		value *vpp_acl.ACL
		field string // "" for valid values
	}{
		{with(), ""},
		{ip(&ipRule{}), ""},
		{ip(&ipRule{Ip: &ipNet{SourceNetwork: "10.0.0.1/8", DestinationNetwork: "10.0.0.0/8", Protocol: 132}}), ""},
		{ip(&ipRule{Ip: &ipNet{Protocol: 6}, Tcp: &tcp{TcpFlagsMask: 18, TcpFlagsValue: 2}}), ""},
		{ip(&ipRule{Icmp: &icmp{Icmpv6: true, IcmpTypeRange: &types{First: 1, Last: 255}}}), ""},
		{mac(&macIP{}), ""},
		{mac(&macIP{SourceAddress: "fd00::1", SourceAddressPrefix: 128, SourceMacAddress: "02:00:00:00:00:01"}), ""},
		{on(ip(&ipRule{}), []string{"a", "b"}, []string{"a"}), ""},

		{&vpp_acl.ACL{}, "name"},
		{with(&rule{}), "rules"},
		{with(&rule{IpRule: &ipRule{}, MacipRule: &macIP{}}), "rules"},
		{with(&rule{IpRule: &ipRule{}}, &rule{MacipRule: &macIP{}}), "rules"},
		{with(&rule{Action: 7, IpRule: &ipRule{}}), "rules"},
		{with(&rule{Action: vpp_acl.ACL_Rule_REFLECT, MacipRule: &macIP{}}), "rules"},
		{ip(&ipRule{Ip: &ipNet{SourceNetwork: "10.0.0.1"}}), "rules"},
		{ip(&ipRule{Ip: &ipNet{SourceNetwork: "::ffff:10.0.0.1/120"}}), "rules"},
		{ip(&ipRule{Ip: &ipNet{SourceNetwork: "10.0.0.0/8", DestinationNetwork: "fd00::/8"}}), "rules"},
		{ip(&ipRule{Ip: &ipNet{SourceNetwork: "10.0.0.0/8"}, Icmp: &icmp{Icmpv6: true}}), "rules"},
		{ip(&ipRule{Ip: &ipNet{DestinationNetwork: "fd00::/8"}, Icmp: &icmp{}}), "rules"},
		{ip(&ipRule{Ip: &ipNet{Protocol: 256}}), "rules"},
		{ip(&ipRule{Ip: &ipNet{Protocol: 17}, Tcp: &tcp{}}), "rules"},
		{ip(&ipRule{Udp: &udp{}, Tcp: &tcp{}}), "rules"},
		{ip(&ipRule{Udp: &udp{}, Icmp: &icmp{}}), "rules"},
		{ip(&ipRule{Udp: &udp{SourcePortRange: &ports{LowerPort: 2, UpperPort: 1}}}), "rules"},
		{ip(&ipRule{Tcp: &tcp{DestinationPortRange: &ports{UpperPort: 65536}}}), "rules"},
		{ip(&ipRule{Tcp: &tcp{TcpFlagsMask: 2, TcpFlagsValue: 18}}), "rules"},
		{ip(&ipRule{Tcp: &tcp{TcpFlagsMask: 256}}), "rules"},
		{ip(&ipRule{Icmp: &icmp{IcmpCodeRange: &types{Last: 256}}}), "rules"},
		{ip(&ipRule{Icmp: &icmp{IcmpTypeRange: &types{First: 3}}}), "rules"},
		{mac(&macIP{SourceAddress: "10.0.0.0/8"}), "rules"},
		{mac(&macIP{SourceAddress: "10.0.0.0", SourceAddressPrefix: 33}), "rules"},
		{mac(&macIP{SourceAddressPrefix: 8}), "rules"},
		{mac(&macIP{SourceMacAddress: "02:00"}), "rules"},
		{mac(&macIP{SourceMacAddressMask: "ff:00:00:00:00:00"}), "rules"},
		{on(ip(&ipRule{}), []string{"a", "a"}, nil), "interfaces.ingress"},
		{on(ip(&ipRule{}), nil, []string{""}), "interfaces.egress"},
		{on(mac(&macIP{}), nil, []string{"a"}), "interfaces.egress"},
	} {
		descriptortest.WantInvalid(t, test.value, validateACL(test.value), test.field)
	}
}

func TestACLEquivalence(t *testing.T) {
	base := func(edit func(*vpp_acl.ACL)) *vpp_acl.ACL {
		acl := &vpp_acl.ACL{Name: "l", Rules: []*rule{
			{Action: vpp_acl.ACL_Rule_PERMIT, IpRule: &ipRule{Ip: &ipNet{SourceNetwork: "10.0.0.0/8"}, Tcp: &tcp{}}},
			{IpRule: &ipRule{}},
		}, Interfaces: &vpp_acl.ACL_Interfaces{Ingress: []string{"a", "b"}, Egress: []string{"c"}}}
		edit(acl)
		return acl
	}
	for _, test := range []struct {
		name string
		edit func(*vpp_acl.ACL)
		same bool
	}{
		{"nothing", func(*vpp_acl.ACL) {}, true},
		{"network written with a host", func(a *vpp_acl.ACL) { a.Rules[0].IpRule.Ip.SourceNetwork = "10.1.2.3/8" }, true},
		{"protocol said twice", func(a *vpp_acl.ACL) { a.Rules[0].IpRule.Ip.Protocol = 6 }, true},
		{"all ports", func(a *vpp_acl.ACL) {
			a.Rules[0].IpRule.Tcp.SourcePortRange = &ports{UpperPort: 65535}
		}, true},
		{"order of interfaces", func(a *vpp_acl.ACL) { a.Interfaces.Ingress = []string{"b", "a"} }, true},
		{"one rule for each IP version", func(a *vpp_acl.ACL) {
			a.Rules[1] = &rule{IpRule: &ipRule{Ip: &ipNet{SourceNetwork: "0.0.0.0/0"}}}
			a.Rules = append(a.Rules, &rule{IpRule: &ipRule{Ip: &ipNet{DestinationNetwork: "::/0"}}})
		}, true},
		{"action", func(a *vpp_acl.ACL) { a.Rules[0].Action = vpp_acl.ACL_Rule_REFLECT }, false},
		{"order of rules", func(a *vpp_acl.ACL) { a.Rules[0], a.Rules[1] = a.Rules[1], a.Rules[0] }, false},
		{"one port", func(a *vpp_acl.ACL) { a.Rules[0].IpRule.Tcp.SourcePortRange = &ports{} }, false},
		{"direction", func(a *vpp_acl.ACL) { a.Interfaces.Ingress, a.Interfaces.Egress = []string{"a"}, []string{"b", "c"} }, false},
	} {
		if got := equivalentACL(base(func(*vpp_acl.ACL) {}), base(test.edit)); got != test.same {
			t.Errorf("%s: equivalent %v, want %v", test.name, got, test.same)
		}
	}
}

// The kind decides, in both directions.
func TestACLOfAnotherKindIsMadeAnew(t *testing.T) {
	d := aclDescriptor(struct{ vswitch.ACLs }{})
	ip := &vpp_acl.ACL{Rules: []*rule{{IpRule: &ipRule{}}}}
	mac := &vpp_acl.ACL{Rules: []*rule{{MacipRule: &macIP{}}}}
	for _, pair := range [][2]*vpp_acl.ACL{{ip, mac}, {mac, ip}} {
		if !d.UpdateWithRecreate("", pair[0], pair[1], descriptor.NoMeta{}) {
			t.Errorf("%v to %v: not recreated", pair[0], pair[1])
		}
	}
	other := proto.CloneOf(ip)
	other.Rules = append(other.Rules, &rule{IpRule: &ipRule{Tcp: &tcp{}}})
	if d.UpdateWithRecreate("", ip, other, descriptor.NoMeta{}) {
		t.Error("recreated for another rule")
	}
}

func TestACLInterfaceKeys(t *testing.T) {
	for _, b := range []vswitch.ACLBinding{
		{ACL: "web", Interface: "tap1"},
		{ACL: "web", Interface: "GigabitEthernet0/9/0", Egress: true},
		{ACL: "a/b", Interface: "x/interface/egress/y"},
	} {
		if got, err := parseACLInterfaceKey(models.ACLInterfaceKey(b.ACL, b.Interface, b.Egress)); err != nil || got != b {
			t.Errorf("got %v, %v, want %v", got, err, b)
		}
	}
	for _, key := range []string{"vpp/acl/web", "vpp/acl/web/interface/both/x", "vpp/abf/1/interface/ingress/x"} {
		if b, err := parseACLInterfaceKey(key); err == nil {
			t.Errorf("%s: got %v", key, b)
		}
	}
}

func TestACLRulesAreGivenInFull(t *testing.T) {
	rules, err := vswitch.ACLRules(&vpp_acl.ACL{Rules: []*rule{
		{Action: vpp_acl.ACL_Rule_REFLECT, IpRule: &ipRule{Udp: &udp{DestinationPortRange: &ports{LowerPort: 53, UpperPort: 54}}}},
	}})
	if err != nil || len(rules) != 2 {
		t.Fatalf("got %v, %v", rules, err)
	}
	for i, network := range []string{"0.0.0.0/0", "::/0"} {
		want := vswitch.ACLRule{
			Action: vpp_acl.ACL_Rule_REFLECT, Src: netip.MustParsePrefix(network), Dst: netip.MustParsePrefix(network),
			Protocol: vswitch.Range{First: 17, Last: 17}, SrcPortsOrTypes: vswitch.AnyPort, DstPortsOrCodes: vswitch.Range{First: 53, Last: 54},
		}
		if rules[i] != want {
			t.Errorf("got %v, want %v", rules[i], want)
		}
	}
}
