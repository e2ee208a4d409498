package jsonpath

import (
	"encoding/json"
	"testing"
)

// The error about a template that selects nothing says what it could select.
func TestTemplatesThatSelectNothing(t *testing.T) {
	data, err := json.Marshal([]map[string]any{{"node": "node1", "result": map[string]any{"state": "ready", "verdict": "healthy"}, "empty": map[string]any{}, "none": nil}})
	if err != nil {
		t.Fatal(err)
	}
	for template, want := range map[string]string{
		"{.foo}":               `-o jsonpath={.foo}: there is no "foo": a list is there: write [0] for its first element, or [*] for all, before the name`,
		"[0].nod":              `-o jsonpath={[0].nod}: there is no "nod": names there are empty, node, none, result`,
		"{[*].result.x.y}":     `-o jsonpath={[*].result.x.y}: there is no "x": names there are state, verdict`,
		"{[0].result.state.x}": `-o jsonpath={[0].result.state.x}: there is no "x": a single value is there`,
		"{[0].result.stat}":    `-o jsonpath={[0].result.stat}: there is no "stat": names there are state, verdict`,
		"{[*].result.res}":     `-o jsonpath={[*].result.res}: there is no "res": names there are state, verdict`,
		"{[0].node}: {[0].x}":  `-o jsonpath={[0].node}: {[0].x}: there is no "x": names there are empty, node, none, result`,
		"node {[0].node.x}":    `-o jsonpath=node {[0].node.x}: there is no "x": a single value is there`,
		"all {[0].x}":          `-o jsonpath=all {[0].x}: there is no "x": names there are empty, node, none, result`,
		"{[0].empty.x}":        `-o jsonpath={[0].empty.x}: there is no "x": no name is there`,
		"{[0].none.x}":         `-o jsonpath={[0].none.x}: there is no "x": nothing is there`,
		"{.}":                  `-o jsonpath={.}: a name is missing after the last dot: a list is there: write [0] for its first element, or [*] for all, before the name`,
		"{[0].}":               `-o jsonpath={[0].}: a name is missing after the last dot: names there are empty, node, none, result`,
		"{[7].node}":           `-o jsonpath={[7].node}: array index out of bounds: index 7, length 1: -o json shows what there is`,
		"{[?(@.x==1)].node}":   `-o jsonpath={[?(@.x==1)].node}: there is no "x": -o json shows what there is`,
	} {
		out, err := Extract(data, template)
		if err == nil || err.Error() != want {
			t.Errorf("%s: %q, %v\nwant %s", template, out, err, want)
		}
	}
}

func TestTemplatesForNothing(t *testing.T) {
	if _, err := Extract([]byte("null"), "{.x}"); err == nil || err.Error() != `-o jsonpath={.x}: there is no "x": nothing is there` {
		t.Errorf("%v", err)
	}
}
