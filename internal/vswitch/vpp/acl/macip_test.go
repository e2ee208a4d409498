package acl

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/kvscheduler"
	"go.fd.io/govpp/binapi/acl_types"
)

// For every sender that rules distinguish, VPP's order of tables (macipForm.rank) selects our first
// matching rule.
func TestMACIPRulesAreTriedInOrder(t *testing.T) {
	const yes, no = vpp_acl.ACL_Rule_PERMIT, vpp_acl.ACL_Rule_DENY
	for name, rules := range map[string][]*vpp_acl.ACL_Rule{
		"wide before narrow":   {macRule(no, "10.0.0.0", 8, "", ""), macRule(yes, "10.1.0.0", 16, "02:00:00:00:00:01", "")},
		"narrow before wide":   {macRule(no, "10.1.1.1", 32, "", ""), macRule(yes, "10.0.0.0", 8, "", ""), macRule(no, "", 0, "", "")},
		"many in a lower form": {macRule(no, "10.1.1.1", 32, "", ""), macRule(yes, "10.1.0.0", 16, "", ""), macRule(yes, "10.2.0.0", 16, "", ""), macRule(yes, "10.3.0.0", 16, "", "")},
		"MAC before IP":        {macRule(no, "", 0, "02:00:00:00:00:01", ""), macRule(yes, "10.1.1.1", 32, "", ""), macRule(yes, "10.1.1.2", 32, "", ""), macRule(no, "10.1.0.0", 16, "", "")},
		"hidden":               {macRule(yes, "10.0.0.0", 8, "", ""), macRule(no, "10.1.1.1", 32, "", ""), macRule(no, "", 0, "02:00:00:00:00:01", "")},
	} {
		t.Run(name, func(t *testing.T) {
			list := &vpp_acl.ACL{Name: "l", Rules: rules}
			inOrder, err := vswitch.ACLRules(list)
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := macipACLRules(list)
			if err != nil {
				t.Fatal(err)
			}
			ranks := map[macipForm]int{}
			for _, r := range theirs {
				ranks[formOf(ruleOf(r))]++
			}
			for _, sender := range senders(inOrder) {
				first := slices.IndexFunc(inOrder, func(r vswitch.ACLRule) bool { return covers(r, sender) })
				var decisive acl_types.ACLAction
				rank := -1
				for _, r := range theirs {
					form := formOf(ruleOf(r))
					if n := form.rank(ranks[form]); covers(ruleOf(r), sender) && n > rank {
						decisive, rank = r.IsPermit, n
					}
				}
				if (first >= 0 && aclActions[inOrder[first].Action] != decisive) || (first < 0 && rank >= 0) {
					t.Errorf("%v, %v: VPP says %v, by order rule %d", sender.Src, sender.MAC, decisive, first+1)
				}
			}
		})
	}
	circle := &vpp_acl.ACL{Name: "l", Rules: []*vpp_acl.ACL_Rule{
		macRule(no, "10.1.0.0", 16, "02:00:00:00:00:01", ""), macRule(yes, "10.0.0.0", 8, "", ""), macRule(no, "10.2.0.0", 16, "02:00:00:00:00:02", ""),
		macRule(yes, "", 0, "02:00:00:00:00:02", ""), macRule(no, "11.0.0.0", 8, "", ""),
	}}
	if _, err := macipACLRules(circle); err != nil && !errors.Is(err, kvscheduler.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
}

func ruleOf(r acl_types.MacipACLRule) vswitch.ACLRule {
	return vswitch.ACLRule{Src: convert.NetipPrefix(r.SrcPrefix), MAC: r.SrcMac, MACMask: r.SrcMacMask}
}

func senders(rules []vswitch.ACLRule) (list []vswitch.ACLRule) {
	for _, a := range rules {
		for _, b := range rules {
			addr := a.Src.Addr()
			list = append(list, vswitch.ACLRule{Src: netip.PrefixFrom(addr, addr.BitLen()), MAC: b.MAC, MACMask: [6]byte{255, 255, 255, 255, 255, 255}})
		}
	}
	return list
}

func macRule(action vpp_acl.ACL_Rule_Action, addr string, bits uint32, mac, mask string) *vpp_acl.ACL_Rule {
	return &vpp_acl.ACL_Rule{Action: action, MacipRule: &vpp_acl.ACL_Rule_MacIpRule{
		SourceAddress: addr, SourceAddressPrefix: bits, SourceMacAddress: mac, SourceMacAddressMask: mask,
	}}
}
