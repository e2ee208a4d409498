package acl

import (
	"net/netip"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	"github.com/contiv/contiv/internal/vswitch"
	"pgregory.net/rapid"
)

type aclPacket struct {
	src, dst          netip.Addr
	protocol          uint16
	srcPort, destPort uint16
	flags             uint8
}

func matchesPacket(r vswitch.ACLRule, p aclPacket) bool {
	if !r.Src.Contains(p.src) || !r.Dst.Contains(p.dst) || !r.Protocol.Has(p.protocol) {
		return false
	}
	return r.Protocol == vswitch.AnyProtocol ||
		r.SrcPortsOrTypes.Has(p.srcPort) && r.DstPortsOrCodes.Has(p.destPort) && p.flags&r.TCPFlagsMask == r.TCPFlags
}

// Layers decide like the ordered rules, whatever the order within a layer, and their verdict maps
// have no overlapping elements.
func TestLayersDecideAsTheRules(t *testing.T) {
	prefixes := []string{"0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.1.1/32", "10.2.0.0/16"}
	addrs := []string{"10.1.1.1", "10.1.2.2", "10.2.0.1", "192.168.1.1"}
	ranges := []vswitch.Range{{First: 0, Last: 65535}, {First: 80, Last: 80}, {First: 50, Last: 90}, {First: 85, Last: 200}}
	rapid.Check(t, func(t *rapid.T) {
		rules := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) vswitch.ACLRule {
			r := vswitch.ACLRule{
				Action: rapid.SampledFrom([]vpp_acl.ACL_Rule_Action{0, 1, 2}).Draw(t, "action"),
				Src:    netip.MustParsePrefix(rapid.SampledFrom(prefixes).Draw(t, "src")), Dst: netip.MustParsePrefix(rapid.SampledFrom(prefixes).Draw(t, "dst")),
				Protocol: vswitch.AnyProtocol, SrcPortsOrTypes: vswitch.AnyPort, DstPortsOrCodes: vswitch.AnyPort,
			}
			if n := rapid.SampledFrom([]uint16{0, 6, 17}).Draw(t, "protocol"); n != 0 {
				r.Protocol = vswitch.Range{First: n, Last: n}
				r.SrcPortsOrTypes, r.DstPortsOrCodes = rapid.SampledFrom(ranges).Draw(t, "ports"), rapid.SampledFrom(ranges).Draw(t, "ports")
				if n == 6 && rapid.Bool().Draw(t, "flags") {
					r.TCPFlagsMask, r.TCPFlags = 18, 2
				}
			}
			return r
		}), 0, 25).Draw(t, "rules")
		layers := layersOf(rules)
		for range 20 {
			p := aclPacket{
				src: netip.MustParseAddr(rapid.SampledFrom(addrs).Draw(t, "src")), dst: netip.MustParseAddr(rapid.SampledFrom(addrs).Draw(t, "dst")),
				protocol: rapid.SampledFrom([]uint16{1, 6, 17}).Draw(t, "protocol"),
				srcPort:  rapid.SampledFrom([]uint16{80, 60, 87, 1000}).Draw(t, "port"), destPort: rapid.SampledFrom([]uint16{80, 60, 87, 1000}).Draw(t, "port"),
				flags: rapid.SampledFrom([]uint8{2, 16, 18}).Draw(t, "flags"),
			}
			want := vpp_acl.ACL_Rule_Action(-1)
			for _, r := range rules {
				if matchesPacket(r, p) {
					want = r.Action
					break
				}
			}
			if got := decideByLayers(t, layers, p); got != want {
				t.Fatalf("%v: layers say %v, rules %v", p, got, want)
			}
		}
		for _, layer := range layers {
			for _, group := range layer.groups {
				for i, a := range group {
					for _, b := range group[:i] {
						if overlap(&a, &b) {
							t.Fatalf("one map has %v and %v", a, b)
						}
					}
				}
			}
		}
	})
}

func decideByLayers(t *rapid.T, layers []*aclLayer, p aclPacket) vpp_acl.ACL_Rule_Action {
	for _, layer := range layers {
		said := vpp_acl.ACL_Rule_Action(-1)
		for _, group := range layer.groups {
			for _, r := range group {
				if !matchesPacket(r, p) {
					continue
				}
				if said >= 0 && said != r.Action {
					t.Fatalf("%v: one layer says %v and %v", p, said, r.Action)
				}
				said = r.Action
			}
		}
		if said >= 0 {
			return said
		}
	}
	return -1
}

func TestPoliciesHaveFewLayers(t *testing.T) {
	var rules []vswitch.ACLRule
	for _, r := range manyRules(1000) {
		rules = append(rules, r)
		exception := r
		exception.Action, exception.Protocol = vpp_acl.ACL_Rule_DENY, vswitch.AnyProtocol
		exception.SrcPortsOrTypes, exception.DstPortsOrCodes = vswitch.AnyPort, vswitch.AnyPort
		rules = append(rules, exception)
	}
	if lines := compileACL(rules, false); len(lines) > 3 {
		t.Errorf("%d rules became %d", len(rules), len(lines))
	}
}

func TestACLNames(t *testing.T) {
	for _, name := range []string{"web", "contiv-policy-NODE-GLOBAL", "a_b", "GigabitEthernet0/9/0", `x" accept; drop`, "_", "ü"} {
		text := aclName(name)
		if got, err := parseACLName(text); err != nil || got != name {
			t.Errorf("%q is written %q, and read %q, %v", name, text, got, err)
		}
		if !own.PlainName.MatchString(text) {
			t.Errorf("%q is written %q", name, text)
		}
	}
	for _, text := range []string{"_", "a_2", "_zz"} {
		if name, err := parseACLName(text); err == nil {
			t.Errorf("%q is read as %q", text, name)
		}
	}
}

func manyRules(n int) []vswitch.ACLRule {
	acl := &vpp_acl.ACL{Name: "many"}
	for i := range n {
		src := netip.AddrFrom4([4]byte{10, 1, byte(i / 250), byte(i % 250)})
		port := uint32(1 + i%5000)
		acl.Rules = append(acl.Rules, &vpp_acl.ACL_Rule{Action: vpp_acl.ACL_Rule_PERMIT, IpRule: &vpp_acl.ACL_Rule_IpRule{
			Ip: &vpp_acl.ACL_Rule_IpRule_Ip{SourceNetwork: src.String() + "/32"},
			Tcp: &vpp_acl.ACL_Rule_IpRule_Tcp{
				DestinationPortRange: &vpp_acl.ACL_Rule_IpRule_PortRange{LowerPort: port, UpperPort: port},
			},
		}})
	}
	rules, err := vswitch.ACLRules(acl)
	if err != nil {
		panic(err)
	}
	return rules
}
