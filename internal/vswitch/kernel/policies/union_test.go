package policies

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/internal/netlink/nft"
	"google.golang.org/protobuf/proto"
)

func selecting(sort string, n int) (list *contiv_filter.AccessList, set *contiv_filter.AddressSet) {
	set = &contiv_filter.AddressSet{Name: fmt.Sprint(sort, n), Addresses: []string{fmt.Sprintf("10.21.%d.%d", n/250, n%250), fmt.Sprintf("fd21::%x", n)}}
	rule := &contiv_filter.AccessList_Rule{AddressSets: []string{set.GetName()}}
	switch sort {
	case "port":
		rule.Ports = []*contiv_filter.AccessList_Ports{{First: uint32(1 + n), Last: uint32(1 + n)}}
	case "range":
		rule.Ports = []*contiv_filter.AccessList_Ports{{First: 1, Last: 5000}, {Protocol: contiv_filter.Protocol_UDP}}
	case "network":
		rule.AddressSets, rule.Networks = nil, []string{set.GetAddresses()[0] + "/32"}
	case "anybody":
		rule.AddressSets, rule.Ports = nil, []*contiv_filter.AccessList_Ports{{First: uint32(1 + n), Last: uint32(1 + n)}}
	}
	return &contiv_filter.AccessList{Name: fmt.Sprint("np/", sort, n), Rules: []*contiv_filter.AccessList_Rule{rule}}, set
}

// An opening packet traverses as many rules with thousands of policies as with a hundred.
func TestRulesDoNotGrowWithPolicies(t *testing.T) {
	sorts := []string{"any port", "port", "range", "network", "anybody"}
	rules := func(n int) int {
		d := calmDriver()
		subject := &contiv_filter.Subject{Name: "pod", Addresses: []string{"10.22.0.3", "fd22::3"}, Ingress: []*contiv_filter.Subject_Stage{{Deny: true}}}
		var values []proto.Message
		for i := range n {
			for _, sort := range sorts {
				list, set := selecting(sort, i)
				values = append(values, list, set)
				subject.Ingress[0].Lists = append(subject.Ingress[0].Lists, list.GetName())
			}
		}
		if err := d.Set(t.Context(), append(values, subject)...); err != nil {
			t.Fatal(err)
		}
		for chain := range d.have.chains {
			if strings.HasPrefix(chain, listChain) || strings.HasPrefix(chain, rulesChain) {
				t.Fatalf("chain %s exists", chain)
			}
		}
		return len(d.have.chains[d.want.subjects["pod"].in.chain])
	}
	few, many := rules(100), rules(1000)
	if few != many {
		t.Errorf("%d rules for 100 policies of %d sorts, %d for 1000", few, len(sorts), many)
	}
	if few > 20 {
		t.Errorf("%d rules", few)
	}
}

// Adjacent policies that allow share one set, and denying rules keep their position between them.
func TestOnlyRulesThatAllowAreMerged(t *testing.T) {
	d := calmDriver()
	deny := &contiv_filter.AccessList{Name: "deny", Rules: []*contiv_filter.AccessList_Rule{{Action: contiv_filter.AccessList_DENY, AddressSets: []string{"any port1"}}}}
	values := []proto.Message{deny}
	subject := &contiv_filter.Subject{Name: "pod", Addresses: []string{"10.22.0.3"}, Ingress: []*contiv_filter.Subject_Stage{{}}}
	for i := range 4 {
		list, set := selecting("any port", i)
		values = append(values, list, set)
		subject.Ingress[0].Lists = append(subject.Ingress[0].Lists, list.GetName())
		if i == 1 {
			subject.Ingress[0].Lists = append(subject.Ingress[0].Lists, "deny")
		}
	}
	if err := d.Set(t.Context(), append(values, subject)...); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, l := range d.want.subjects["pod"].in.rules {
		switch {
		case strings.Contains(l.text, "jump "+listChain):
			kinds = append(kinds, "list")
		case strings.Contains(l.text, "@"+peerUnion+"4-"):
			kinds = append(kinds, "union")
		}
	}
	if got := strings.Join(kinds, " "); got != "union list union" {
		t.Errorf("the rules are %q", got)
	}
}

// Foreign changes of a union's members are detected: its subjects count as damaged until they are
// set again.
func TestDamagedUnionsAreRepaired(t *testing.T) {
	s := newSite()
	byPort, one := selecting("port", 2)
	open, two := selecting("any port", 3)
	subject := &contiv_filter.Subject{Name: "pod", Addresses: []string{"10.22.0.3"}, Ingress: []*contiv_filter.Subject_Stage{{Lists: []string{byPort.GetName(), open.GetName()}, Deny: true}}}
	s.set(t, byPort, one, open, two, subject)
	elements := func() (list []nft.Element) {
		for name := range s.driver.have.sets {
			for key := range s.driver.have.sets[name] {
				if isUnion(name) {
					list = append(list, nft.Element{Set: name, Key: key})
				}
			}
		}
		return nft.Sorted(list)
	}
	whole := elements()
	if len(whole) != 2 {
		t.Fatalf("unions have %v", whole)
	}
	for _, e := range whole {
		for _, damage := range []func(b *nft.Batch){
			func(b *nft.Batch) { b.DeleteElements([]nft.Element{e}) },
			func(b *nft.Batch) {
				b.AddElements([]nft.Element{{Set: e.Set, Key: "\x0a\x15\x00\x63" + e.Key[4:]}})
			},
		} {
			other := nft.New(s.Kernel)
			b := batch()
			damage(&b)
			if err := other.Locked(func() error { return other.Commit(&b) }); err != nil {
				t.Fatal(err)
			}
			found, err := s.driver.List(t.Context(), s.values)
			if missing := without(s.values, found); err != nil || len(missing) != 1 || missing[0] != proto.Message(subject) {
				t.Fatalf("not found are %v, %v", missing, err)
			}
			if err := s.driver.Set(t.Context(), subject); err != nil {
				t.Fatal(err)
			}
			if got := elements(); !slices.Equal(got, whole) {
				t.Fatalf("after the repair, unions have %v, want %v", got, whole)
			}
			if found, err := s.driver.List(t.Context(), s.values); err != nil || len(found) != len(s.values) {
				t.Fatalf("after the repair, %d values are found, %v", len(found), err)
			}
		}
	}
}
