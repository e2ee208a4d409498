package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/contiv/contiv/test/lab"
)

// ctl runs contivctl, which must succeed, on the agents of the lab.
func ctl(t *testing.T, l *lab.Lab, args ...string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(binaries, "contivctl"), append([]string{"--config", l.CtlConfig()}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("contivctl %q: %v", args, err)
	}
	return string(out)
}

func mustMatch(t *testing.T, text string, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile(p).MatchString(text) {
			t.Errorf("nothing matches %q in\n%s", p, text)
		}
	}
}

// What an agent did before it was killed is told by the next one.
func TestHistorySurvivesAKilledAgent(t *testing.T) {
	l := require(t)
	p := pod(t, l, "past", "node1")
	if _, err := l.CNI(t.Context(), "DEL", p.ID()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.CNI(t.Context(), "ADD", p.ID()); err != nil {
		t.Fatal(err)
	}
	mustMatch(t, ctl(t, l, "events", "node1"), `Add Pod default/past`) // by now it is written: an agent that answers has
	mustMatch(t, ctl(t, l, "txns", "--node", "node1"), `default/past`)
	if err := l.KillAgent(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
	if err := l.StartAgent(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}

	events := ctl(t, l, "events", "node1")
	mustMatch(t, events,
		`(?m)^node1 +\d+\.\d+ .* Delete Pod default/past`,
		`(?m)^node1 +\d+\.\d+ .* Add Pod default/past`,
		`(?m)^node1 +- .*--- agent \S+ started, run \d+; run \d+ ended by itself after\s`,
		`(?m)^node1 +0 .* Database Resync`)
	txns := ctl(t, l, "txns", "--node", "node1")
	mustMatch(t, txns, `Add Pod.*wire pod\s+default/past|default/past`, `run \d+ ended by itself`)
	seq := regexp.MustCompile(`(?m)^node1 +(\d+\.\d+) .* Add Pod default/past`).FindStringSubmatch(events)
	if seq == nil {
		t.Fatal("no number of the event")
	}
	event := ctl(t, l, "events", "node1", "--seq", seq[1])
	mustMatch(t, event, `Add Pod default/past`, `- ipnet: wire pod default/past`)
	txn := regexp.MustCompile("see `contivctl (txns (\\S+) --node node1)`").FindStringSubmatch(event)
	if txn == nil {
		t.Fatalf("no transaction in\n%s", event)
	}
	mustMatch(t, ctl(t, l, "txns", txn[2], "--node", "node1"), `transaction #\d+\.\d+ `, `CREATE +CONFIGURED .*config/vpp/v2/interfaces/vpp-tap-`, `Add Pod default/past`)
	mustMatch(t, ctl(t, l, "timeline", "past"), `(?m)^node1 .* \d+\.\d+ +gone `, `(?m)^node1 .* \d+\.\d+ +CONFIGURED `, `run \d+ ended by itself`, `(?m)^node1 .* 1 +CONFIGURED `)
	mustMatch(t, ctl(t, l, "diff", "--since", "txn:"+txn[2], "node1"), `no difference on node1|OBTAINED`)
}
