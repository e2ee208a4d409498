package diagram

import (
	"strings"
	"testing"

	"github.com/contiv/contiv/kvscheduler/record"
)

func TestEdgesLeadToWhatMatchesAnAnyOf(t *testing.T) {
	var b strings.Builder
	if err := WriteDOT(&b, []*record.Value{
		{Key: "a/1"},
		{Key: "b/1", Needs: []record.Need{{Label: "any", Target: "any of a/*"}, {Label: "c", Target: "c/1"}}, Matching: []record.Need{{Label: "any", Target: "a/1"}}},
	}, 7); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "  \"b/1\" -> \"a/1\" [label=\"any\", fontsize=9, style=dotted];\n  \"c/1\" [style") {
		t.Errorf("no edge to the match of an AnyOf in\n%s", b.String())
	}
}

// Dependencies are to the left of dependents. The members of a cycle are in neighbouring columns.
func TestColumnsFollowNeeds(t *testing.T) {
	need := func(key string) []record.Need { return []record.Need{{Label: "x", Target: key}} }
	values := []*record.Value{
		{Key: "a/1", Derived: []string{"a/1/item"}}, {Key: "a/1/item", Base: "a/1"}, {Key: "a/2", Needs: need("a/1")},
		{Key: "a/3", Needs: need("a/4")}, {Key: "a/4", Needs: need("a/3")},
	}
	byKey := map[string]*record.Value{}
	for _, v := range values {
		byKey[v.Key] = v
	}
	at := map[string]int{}
	for i, column := range columnsOf(values, byKey) {
		for _, v := range column {
			at[v.Key] = i
		}
	}
	if at["a/1"] != 0 || at["a/2"] != 1 || at["a/1/item"] != 1 || at["a/3"] == at["a/4"] {
		t.Errorf("columns %v", at)
	}
}
