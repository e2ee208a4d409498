package jsonpath

import (
	"encoding/json"
	"testing"
)

// A template that selects nothing gets an error with the existing names.
func TestTemplatesThatSelectNothing(t *testing.T) {
	data, err := json.Marshal([]map[string]any{{"node": "node1", "result": map[string]any{"state": "ready", "verdict": "healthy"}, "empty": map[string]any{}, "none": nil}})
	if err != nil {
		t.Fatal(err)
	}
	for template, want := range map[string]string{
		"{.foo}":               `-o jsonpath={.foo}: unknown name "foo": the element is a list: use [0] for its first element, or [*] for all, before the name`,
		"[0].nod":              `-o jsonpath={[0].nod}: unknown name "nod": existing names are empty, node, none, result`,
		"{[*].result.x.y}":     `-o jsonpath={[*].result.x.y}: unknown name "x": existing names are state, verdict`,
		"{[0].result.state.x}": `-o jsonpath={[0].result.state.x}: unknown name "x": the element is a single value`,
		"{[0].result.stat}":    `-o jsonpath={[0].result.stat}: unknown name "stat": existing names are state, verdict`,
		"{[*].result.res}":     `-o jsonpath={[*].result.res}: unknown name "res": existing names are state, verdict`,
		"{[0].node}: {[0].x}":  `-o jsonpath={[0].node}: {[0].x}: unknown name "x": existing names are empty, node, none, result`,
		"node {[0].node.x}":    `-o jsonpath=node {[0].node.x}: unknown name "x": the element is a single value`,
		"all {[0].x}":          `-o jsonpath=all {[0].x}: unknown name "x": existing names are empty, node, none, result`,
		"{[0].empty.x}":        `-o jsonpath={[0].empty.x}: unknown name "x": the object has no names`,
		"{[0].none.x}":         `-o jsonpath={[0].none.x}: unknown name "x": the object has no fields`,
		"{.}":                  `-o jsonpath={.}: a name is missing after the last dot: the element is a list: use [0] for its first element, or [*] for all, before the name`,
		"{[0].}":               `-o jsonpath={[0].}: a name is missing after the last dot: existing names are empty, node, none, result`,
		"{[7].node}":           `-o jsonpath={[7].node}: array index out of bounds: index 7, length 1: -o json shows all names`,
		"{[?(@.x==1)].node}":   `-o jsonpath={[?(@.x==1)].node}: unknown name "x": -o json shows all names`,
	} {
		out, err := Extract(data, template)
		if err == nil || err.Error() != want {
			t.Errorf("%s: %q, %v\nwant %s", template, out, err, want)
		}
	}
}

func TestTemplatesForNothing(t *testing.T) {
	if _, err := Extract([]byte("null"), "{.x}"); err == nil || err.Error() != `-o jsonpath={.x}: unknown name "x": the object has no fields` {
		t.Errorf("%v", err)
	}
}
