package ctl

import (
	"strings"
	"testing"
)

// For one record, -o name prints the argument that selects it.
func TestNamesOfOneRecord(t *testing.T) {
	agent := bigNode(t, 3, 50)
	for line, want := range map[string]string{
		"txns 2 -o name": "2\n", "txns 1.2 -o name": "1.2\n", "events --seq 1.1 -o name": "1.1\n",
	} {
		if out, errOut, err := run(t, append([]string{"--agent", agent}, strings.Fields(line)...)...); out != want || err != nil {
			t.Errorf("%s: %q, %s, %v", line, out, errOut, err)
		}
	}
}

// States are given separately or in a list.
func TestValuesOfSeveralStates(t *testing.T) {
	agent := bigNode(t, 3, 50)
	for _, states := range [][]string{{"--state", "FAILED,configured"}, {"--state", "FAILED", "--state", "CONFIGURED"}} {
		out, _, err := run(t, append([]string{"--agent", agent, "values", "-o", "name"}, states...)...)
		if strings.Count(out, "\n") != 50 || err != nil {
			t.Errorf("%v: %v, %s", states, err, out)
		}
	}
	if _, _, err := run(t, "--agent", agent, "values", "--state", "FAILED,CONFIGURD"); err == nil || !strings.Contains(err.Error(), `did you mean "CONFIGURED"`) {
		t.Error(err)
	}
}

func TestStatusOfNodes(t *testing.T) {
	first := bigNode(t, 1, 10)
	agents := []string{"--agent", first, "--agent", strings.Replace(first, "n1=", "n2=", 1), "--agent", "n3=unix:///nowhere"}
	for line, want := range map[string]string{"n2": "n2", "n2 n1 n2": "n2 n1", "--node n1": "n1"} {
		out, _, err := run(t, append(append(agents, "status"), strings.Fields(line)...)...)
		var shown []string
		for row := range strings.Lines(out) {
			if name, _, _ := strings.Cut(row, " "); strings.HasPrefix(name, "n") {
				shown = append(shown, name)
			}
		}
		if got := strings.Join(shown, " "); got != want || err != nil {
			t.Errorf("%s: %v, %s", line, err, out)
		}
	}
	for line, want := range map[string]string{"n4": `node "n4" is not known`, "--node n1 n2": "--node n1 contradicts the argument n2"} {
		if _, _, err := run(t, append(append(agents, "status"), strings.Fields(line)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// "outside", a word of the lab, gets an error with the correct form.
func TestWhyOutside(t *testing.T) {
	if _, _, err := run(t, "--agent", bigNode(t, 1, 10), "why", "web-0", "outside"); err == nil || !strings.Contains(err.Error(), "use an address outside of the cluster") {
		t.Error(err)
	}
}
