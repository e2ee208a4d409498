package kernel

import (
	"strings"
	"testing"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"google.golang.org/protobuf/proto"
)

// Of subjects with one address, the last one set counts. The others are there, too: a
// resync does not take turns. One that was found to be missing does not come back.
func TestSubjectsWithOneAddress(t *testing.T) {
	site := newNode(t)
	v := site.Open(t).(*VSwitch)
	defer v.Close()
	one := &contiv_filter.Subject{Name: "one", Addresses: []string{"10.1.1.2"}, Ingress: []*contiv_filter.Subject_Stage{{Deny: true}}}
	two := &contiv_filter.Subject{Name: "two", Addresses: []string{"10.1.1.2"}, Egress: []*contiv_filter.Subject_Stage{{Deny: true}}}
	all := []proto.Message{one, two}
	check(t, v.Filter().Set(t.Context(), one))
	check(t, v.Filter().Set(t.Context(), two))
	for range 2 {
		if found, err := v.Filter().List(t.Context(), all); err != nil || len(found) != 2 {
			t.Fatalf("found %v, %v", found, err)
		}
	}
	restarted := site.Open(t).(*VSwitch)
	defer restarted.Close()
	found, err := restarted.Filter().List(t.Context(), all)
	if err != nil || len(found) != 1 || found[0] != two {
		t.Fatalf("after a restart: found %v, %v", found, err)
	}
	check(t, restarted.Filter().Set(t.Context(), one))
	if found, err := restarted.Filter().List(t.Context(), all); err != nil || len(found) != 2 {
		t.Errorf("found %v, %v", found, err)
	}
	site.Self().Exec(t, "nft delete element inet contiv-policy in4 { 10.1.1.2 }")
	if found, err := restarted.Filter().List(t.Context(), all); err != nil || len(found) != 0 {
		t.Errorf("damaged, but found %v, %v", found, err)
	}
	check(t, restarted.Filter().Set(t.Context(), two))
	check(t, restarted.Filter().Remove(t.Context(), two)) // one is missing, and stays so
	if rules := site.Self().Exec(t, "nft list ruleset"); strings.Contains(rules, "10.1.1.2") {
		t.Errorf("left: %s", rules)
	}
}
