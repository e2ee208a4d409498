package nat

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor/descriptortest"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

func oneMapping(edit func(*staticMapping)) *vpp_nat.DNat44 {
	m := &staticMapping{ExternalIp: "10.96.0.1", ExternalPort: 80, LocalIps: []*localIP{
		{LocalIp: "10.1.1.2", LocalPort: 8080, Probability: 1}, {LocalIp: "10.1.1.3", LocalPort: 8080, Probability: 1},
	}}
	edit(m)
	return &vpp_nat.DNat44{Label: "l", StMappings: []*staticMapping{m}}
}

func TestDNATValidation(t *testing.T) {
	const at = "st_mappings[0]."
	address := func(m *staticMapping) {
		m.ExternalPort, m.LocalIps = 0, []*localIP{{LocalIp: "10.1.1.2"}}
	}
	for _, test := range []struct {
		name, field string
		edit        func(*staticMapping)
	}{
		{"valid", "", func(*staticMapping) {}},
		{"address only", "", address},
		{"interface", "", func(m *staticMapping) { m.ExternalIp, m.ExternalInterface = "", "eth0" }},
		{"no external address", at + "external_ip", func(m *staticMapping) { m.ExternalIp = "" }},
		{"IPv6", at + "external_ip", func(m *staticMapping) { m.ExternalIp = "fd00::1" }},
		{"port", at + "external_port", func(m *staticMapping) { m.ExternalPort = 65536 }},
		{"no local address", at + "local_ips", func(m *staticMapping) { m.LocalIps = nil }},
		{"local IPv6", at + "local_ips.local_ip", func(m *staticMapping) { m.LocalIps[1].LocalIp = "fd00::1" }},
		{"local port", at + "local_ips.local_port", func(m *staticMapping) { m.LocalIps[1].LocalPort = 0 }},
		{"local twice", at + "local_ips", func(m *staticMapping) { m.LocalIps[1].LocalIp = m.LocalIps[0].LocalIp }},
		{"several addresses", at + "external_port", func(m *staticMapping) { m.ExternalPort = 0 }},
		{"twice-NAT of an address", at + "twice_nat", func(m *staticMapping) { address(m); m.TwiceNat = vpp_nat.DNat44_StaticMapping_SELF }},
		{"pool address without twice-NAT", at + "twice_nat_pool_ip", func(m *staticMapping) { m.TwiceNatPoolIp = "10.1.1.254" }},
		{"pool address of several", at + "twice_nat_pool_ip", func(m *staticMapping) {
			m.TwiceNat, m.TwiceNatPoolIp = vpp_nat.DNat44_StaticMapping_ENABLED, "10.1.1.254"
		}},
	} {
		descriptortest.WantInvalid(t, test.name, validateDNAT(oneMapping(test.edit)), test.field)
	}
	value := oneMapping(func(*staticMapping) {})
	value.StMappings = append(value.StMappings, proto.CloneOf(value.StMappings[0]))
	descriptortest.WantInvalid(t, "the same twice", validateDNAT(value), "st_mappings[1].external_port")
	value.StMappings[0].ExternalIp, value.StMappings[0].ExternalPort = "198.51.0.1", 11
	value.StMappings[1].ExternalIp, value.StMappings[1].ExternalPort = "198.51.0.11", 1
	descriptortest.WantInvalid(t, "the same digits in a row", validateDNAT(value), "")
	for name, ids := range map[string][]*identityMapping{
		"identities with the same digits in a row":           {{IpAddress: "198.51.0.1", Port: 11}, {IpAddress: "198.51.0.11", Port: 1}},
		"identities of interfaces with digits in their name": {{Interface: "eth1", Port: 12}, {Interface: "eth11", Port: 2}},
	} {
		descriptortest.WantInvalid(t, name, validateDNAT(&vpp_nat.DNat44{Label: "l", IdMappings: ids}), "")
	}
	same := &identityMapping{IpAddress: "198.51.0.1", Port: 11}
	descriptortest.WantInvalid(t, "the same identity twice", validateDNAT(&vpp_nat.DNat44{Label: "l", IdMappings: []*identityMapping{same, proto.CloneOf(same)}}), "id_mappings[1].ip_address")
	descriptortest.WantInvalid(t, "no label", validateDNAT(&vpp_nat.DNat44{}), "label")
	descriptortest.WantInvalid(t, "identity of nothing", validateDNAT(&vpp_nat.DNat44{Label: "l", IdMappings: []*identityMapping{{}}}), "id_mappings[0].ip_address")
}

func TestDNATEquivalence(t *testing.T) {
	base := oneMapping(func(*staticMapping) {})
	for _, test := range []struct {
		name string
		edit func(*staticMapping)
		want bool
	}{
		{"order", func(m *staticMapping) { slices.Reverse(m.LocalIps) }, true},
		{"equal probabilities", func(m *staticMapping) { m.LocalIps[0].Probability, m.LocalIps[1].Probability = 7, 7 }, true},
		{"probability", func(m *staticMapping) { m.LocalIps[0].Probability = 2 }, false},
		{"affinity", func(m *staticMapping) { m.SessionAffinity = 1 }, false},
		{"whose affinity, without any", func(m *staticMapping) { m.AffinityPort = 99 }, true},
		{"backend", func(m *staticMapping) { m.LocalIps = m.LocalIps[1:] }, false},
		{"twice-NAT", func(m *staticMapping) { m.TwiceNat = vpp_nat.DNat44_StaticMapping_SELF }, false},
	} {
		if got := proto.Equal(normalDNAT(base), normalDNAT(oneMapping(test.edit))); got != test.want {
			t.Errorf("%s: equivalent %v, want %v", test.name, got, test.want)
		}
	}
	one := oneMapping(func(m *staticMapping) { m.LocalIps = m.LocalIps[1:] })
	sticky := oneMapping(func(m *staticMapping) { m.LocalIps, m.SessionAffinity = m.LocalIps[1:], 600 })
	if proto.Equal(normalDNAT(one), normalDNAT(sticky)) {
		t.Error("affinity of a mapping with one backend is ignored")
	}
	whole := func(m *staticMapping) { m.LocalIps, m.ExternalPort, m.LocalIps[1].LocalPort = m.LocalIps[1:], 0, 0 }
	stickyWhole := func(m *staticMapping) { whole(m); m.SessionAffinity = 600 }
	if !proto.Equal(normalDNAT(oneMapping(whole)), normalDNAT(oneMapping(stickyWhole))) {
		t.Error("affinity matters where there is nothing to choose from: a whole address")
	}
}

func TestDNATDependencies(t *testing.T) {
	value := &vpp_nat.DNat44{
		Label: "l",
		StMappings: []*staticMapping{
			{ExternalInterface: "eth0", TwiceNatPoolIp: "10.1.1.250", LocalIps: []*localIP{{VrfId: 1}, {VrfId: 1}, {VrfId: vswitch.AllVRFs}}},
			{ExternalInterface: "eth0", TwiceNatPoolIp: "10.1.2.250"},
		},
		IdMappings: []*identityMapping{{Interface: "eth1", VrfId: 2}},
	}
	var labels []string
	for _, d := range dependenciesOfDNAT(value) {
		labels = append(labels, d.Label)
		if d.Label == "reference-to-twiceNATPoolIP-10.1.1.250" {
			in, out := models.NAT44TwicePoolKey(0, "10.1.1.1", "10.1.1.254"), models.NAT44TwicePoolKey(0, "10.1.1.251", "")
			if !d.AnyOf.KeySelector(in) || d.AnyOf.KeySelector(out) {
				t.Errorf("selects %s: %v, %s: %v", in, d.AnyOf.KeySelector(in), out, d.AnyOf.KeySelector(out))
			}
		}
	}
	want := []string{
		"nat44-global-config-exists", "nat44-is-in-endpoint-dependent-mode", "interface-exists-eth0", "vrf-table-exists-1",
		"reference-to-twiceNATPoolIP-10.1.1.250", "reference-to-twiceNATPoolIP-10.1.2.250", "interface-exists-eth1", "vrf-table-exists-2",
	}
	if !slices.Equal(labels, want) {
		t.Errorf("got %v, want %v", labels, want)
	}
}

func TestNATGlobalLists(t *testing.T) {
	global := func(ifaces ...*vpp_nat.Nat44Global_Interface) *vpp_nat.Nat44Global {
		return &vpp_nat.Nat44Global{NatInterfaces: ifaces, AddressPool: []*vpp_nat.Nat44Global_Address{{Address: "10.0.0.1", TwiceNat: true}}}
	}
	in, out := &vpp_nat.Nat44Global_Interface{Name: "a", IsInside: true}, &vpp_nat.Nat44Global_Interface{Name: "a"}
	descriptortest.WantInvalid(t, "in and out", validateNATGlobal(global(in, out)), "")
	descriptortest.WantInvalid(t, "twice", validateNATGlobal(global(in, in)), "nat_interfaces")
	descriptortest.WantInvalid(t, "in and out with output feature", validateNATGlobal(global(in, &vpp_nat.Nat44Global_Interface{Name: "a", OutputFeature: true})), "nat_interfaces")
	var keys []string
	for _, kv := range derivedOfNATGlobal(global(in, out)) {
		keys = append(keys, kv.Key)
	}
	if want := []string{
		"vpp/nat44/endpoint-dependent", "vpp/nat44/interface/a/feature/in", "vpp/nat44/interface/a/feature/out",
		"vpp/nat44/address/10.0.0.1/twice-nat/on", "vpp/nat44/twiceNAT-pool/vrf/0/addresses/10.0.0.1",
	}; !slices.Equal(keys, want) {
		t.Errorf("derived %v, want %v", keys, want)
	}
	if !models.TwicePoolContains(models.NAT44TwicePoolKey(0, "10.0.0.1", ""), netip.MustParseAddr("10.0.0.1")) {
		t.Error("a pool of one address does not contain it")
	}
}

func oneMapping66(edit func(*staticMapping66)) *contiv_nat.DNat66 {
	m := &staticMapping66{ExternalIp: "fd96::1", ExternalPort: 80, LocalIps: []*contiv_nat.DNat66_StaticMapping_LocalIP{
		{LocalIp: "fd10::2", LocalPort: 8080, Probability: 1}, {LocalIp: "fd10::3", LocalPort: 8080, Probability: 1},
	}}
	edit(m)
	return &contiv_nat.DNat66{Label: "l", StMappings: []*staticMapping66{m}}
}

func TestDNAT66Validation(t *testing.T) {
	const at = "st_mappings[0]."
	const self, always = contiv_nat.DNat66_StaticMapping_SELF, contiv_nat.DNat66_StaticMapping_ENABLED
	for _, test := range []struct {
		name, field string
		edit        func(*staticMapping66)
	}{
		{"valid", "", func(*staticMapping66) {}},
		{"SCTP", "", func(m *staticMapping66) { m.Protocol = contiv_nat.DNat66_SCTP }},
		{"twice-NAT", "", func(m *staticMapping66) { m.TwiceNat, m.TwiceNatIp = self, "fd10::fffe" }},
		{"no external address", at + "external_ip", func(m *staticMapping66) { m.ExternalIp = "" }},
		{"IPv4", at + "external_ip", func(m *staticMapping66) { m.ExternalIp = "10.96.0.1" }},
		{"IPv4 in IPv6", at + "external_ip", func(m *staticMapping66) { m.ExternalIp = "::ffff:10.96.0.1" }},
		{"zone", at + "external_ip", func(m *staticMapping66) { m.ExternalIp = "fe80::1%eth0" }},
		{"multicast", at + "external_ip", func(m *staticMapping66) { m.ExternalIp = "ff02::1" }},
		{"prefix", at + "external_ip", func(m *staticMapping66) { m.ExternalIp = "fd96::/64" }},
		{"no port", at + "external_port", func(m *staticMapping66) { m.ExternalPort = 0 }},
		{"port", at + "external_port", func(m *staticMapping66) { m.ExternalPort = 65536 }},
		{"protocol", at + "protocol", func(m *staticMapping66) { m.Protocol = 7 }},
		{"mode", at + "twice_nat", func(m *staticMapping66) { m.TwiceNat = 7 }},
		{"no local address", at + "local_ips", func(m *staticMapping66) { m.LocalIps = nil }},
		{"local IPv4", at + "local_ips.local_ip", func(m *staticMapping66) { m.LocalIps[1].LocalIp = "10.1.1.2" }},
		{"local port", at + "local_ips.local_port", func(m *staticMapping66) { m.LocalIps[1].LocalPort = 0 }},
		{"local twice", at + "local_ips", func(m *staticMapping66) { m.LocalIps[1].LocalIp = "fd10:0::2" }},
		{"no source", at + "twice_nat_ip", func(m *staticMapping66) { m.TwiceNat = always }},
		{"source IPv4", at + "twice_nat_ip", func(m *staticMapping66) { m.TwiceNat, m.TwiceNatIp = always, "10.1.1.2" }},
		{"source without twice-NAT", at + "twice_nat_ip", func(m *staticMapping66) { m.TwiceNatIp = "fd10::fffe" }},
	} {
		descriptortest.WantInvalid(t, test.name, validateDNAT66(oneMapping66(test.edit)), test.field)
	}
	value := oneMapping66(func(*staticMapping66) {})
	again := proto.CloneOf(value.StMappings[0])
	again.ExternalIp = "fd96:0::1"
	value.StMappings = append(value.StMappings, again)
	descriptortest.WantInvalid(t, "the same twice", validateDNAT66(value), "st_mappings[1].external_port")
	descriptortest.WantInvalid(t, "no label", validateDNAT66(&contiv_nat.DNat66{}), "label")
}

func TestDNAT66Equivalence(t *testing.T) {
	base := oneMapping66(func(*staticMapping66) {})
	equivalent := dnat66Descriptor(struct{ vswitch.DNAT66 }{}).Equivalent
	for _, test := range []struct {
		name string
		edit func(*staticMapping66)
		want bool
	}{
		{"order and form of addresses", func(m *staticMapping66) { slices.Reverse(m.LocalIps); m.ExternalIp = "fd96:0::1" }, true},
		{"equal probabilities", func(m *staticMapping66) { m.LocalIps[0].Probability, m.LocalIps[1].Probability = 7, 7 }, true},
		{"probability", func(m *staticMapping66) { m.LocalIps[0].Probability = 2 }, false},
		{"protocol", func(m *staticMapping66) { m.Protocol = contiv_nat.DNat66_SCTP }, false},
		{"affinity", func(m *staticMapping66) { m.SessionAffinity = 1 }, false},
		{"twice-NAT", func(m *staticMapping66) {
			m.TwiceNat, m.TwiceNatIp = contiv_nat.DNat66_StaticMapping_SELF, "fd10::fffe"
		}, false},
	} {
		if got := equivalent("", base, oneMapping66(test.edit)); got != test.want {
			t.Errorf("%s: equivalent %v, want %v", test.name, got, test.want)
		}
	}
	all := oneMapping66(func(m *staticMapping66) {
		m.Protocol, m.SessionAffinity, m.TwiceNat, m.TwiceNatIp = contiv_nat.DNat66_SCTP, 9, contiv_nat.DNat66_StaticMapping_SELF, "fd10::fffe"
	})
	if got := vswitch.DNAT66FromDNAT44(vswitch.DNAT66AsDNAT44(all)); !proto.Equal(got, all) {
		t.Errorf("there and back: %v, want %v", got, all)
	}
}

func TestPoolValidation(t *testing.T) {
	descriptortest.WantInvalid(t, "pool", validatePool(&vpp_nat.Nat44AddressPool{FirstIp: "10.0.0.9", LastIp: "10.0.0.10"}), "")
	descriptortest.WantInvalid(t, "pool", validatePool(&vpp_nat.Nat44AddressPool{FirstIp: "10.0.0.9", LastIp: "10.0.0.1"}), "last_ip")
	descriptortest.WantInvalid(t, "pool", validatePool(&vpp_nat.Nat44AddressPool{FirstIp: "fd00::1"}), "first_ip")
}

// An address with port and protocol has one mapping for all clients, or one for each kind of
// client, and one more for the node's own processes.
func TestMappingsOfClients(t *testing.T) {
	const all, inside, outside, own = vpp_nat.DNat44_StaticMapping_ALL, vpp_nat.DNat44_StaticMapping_INSIDE, vpp_nat.DNat44_StaticMapping_OUTSIDE, vpp_nat.DNat44_StaticMapping_NODE
	for _, test := range []struct {
		clients []vpp_nat.DNat44_StaticMapping_Clients
		field   string
	}{
		{[]vpp_nat.DNat44_StaticMapping_Clients{inside, outside, own}, ""},
		{[]vpp_nat.DNat44_StaticMapping_Clients{own, inside}, ""},
		{[]vpp_nat.DNat44_StaticMapping_Clients{own, all}, ""},
		{[]vpp_nat.DNat44_StaticMapping_Clients{all, own}, ""},
		{[]vpp_nat.DNat44_StaticMapping_Clients{all, inside}, "st_mappings[1].clients"},
		{[]vpp_nat.DNat44_StaticMapping_Clients{outside, all}, "st_mappings[1].clients"},
		{[]vpp_nat.DNat44_StaticMapping_Clients{own, own}, "st_mappings[1].external_port"},
		{[]vpp_nat.DNat44_StaticMapping_Clients{4}, "st_mappings[0].clients"},
	} {
		value := &vpp_nat.DNat44{Label: "l"}
		for _, clients := range test.clients {
			m := oneMapping(func(m *staticMapping) { m.Clients = clients }).StMappings[0]
			value.StMappings = append(value.StMappings, m)
		}
		descriptortest.WantInvalid(t, fmt.Sprint(test.clients), validateDNAT(value), test.field)
	}
	nobody := oneMapping(func(m *staticMapping) {
		m.Clients, m.LocalIps, m.Otherwise = own, nil, vpp_nat.DNat44_StaticMapping_REFUSE
	})
	descriptortest.WantInvalid(t, "none for the node", validateDNAT(nobody), "st_mappings[0].otherwise")
}

// An update without one of the former addresses and ports comes before creations of values that may
// have it.
func TestUpdatesThatRelease(t *testing.T) {
	at := func(ip string, port uint32) *staticMapping {
		return oneMapping(func(m *staticMapping) { m.ExternalIp, m.ExternalPort = ip, port }).StMappings[0]
	}
	old := &vpp_nat.DNat44{Label: "l", StMappings: []*staticMapping{at("192.168.16.1", 80), at("192.168.16.1", 443)}}
	for name, test := range map[string]struct {
		next []*staticMapping
		want bool
	}{
		"the same":        {[]*staticMapping{at("192.168.16.1", 443), at("192.168.16.1", 80)}, false},
		"one more":        {[]*staticMapping{at("192.168.16.1", 80), at("192.168.16.1", 443), at("192.168.16.2", 80)}, false},
		"one less":        {[]*staticMapping{at("192.168.16.1", 80)}, true},
		"another port":    {[]*staticMapping{at("192.168.16.1", 80), at("192.168.16.1", 444)}, true},
		"another address": {[]*staticMapping{at("192.168.16.1", 80), at("192.168.16.2", 443)}, true},
	} {
		if got := releases(old.GetStMappings(), test.next, external44); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
