package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/contiv/contiv/test/lab"
)

// ctl runs contivctl on the agents of the lab and fails the test if the command fails. It disables
// line wrapping, because the wrapping depends on the durations in tables.
func ctl(t *testing.T, l *lab.Lab, args ...string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(binaries, "contivctl"), append([]string{"--config", l.CtlConfig()}, args...)...)
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "COLUMNS=1000")
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

// After a crash of the agent, the next agent shows its history.
func TestHistorySurvivesAKilledAgent(t *testing.T) {
	l := require(t)
	p := pod(t, l, "past", "node1")
	if _, err := l.CNI(t.Context(), "DEL", p.ID()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.CNI(t.Context(), "ADD", p.ID()); err != nil {
		t.Fatal(err)
	}
	mustMatch(t, ctl(t, l, "events", "node1"), `Add Pod default/past`) // an agent that responds has written it
	mustMatch(t, ctl(t, l, "txns", "--node", "node1"), `default/past`)
	if err := l.KillAgent(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
	if err := l.StartAgent(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}

	// Ask for enough events to include the ones before the restart.
	events := ctl(t, l, "events", "node1", "--last", "200")
	mustMatch(t, events,
		`(?m)^node1 +\d+\.\d+ .* Delete Pod default/past$`,
		`(?m)^node1 +\d+\.\d+ .* Add Pod default/past$`,
		`(?m)^node1 +- .*--- agent \S+ started, run \d+; run \d+ was killed or crashed after \d\d-\d\d [\d:.]+ ---$`,
		`(?m)^node1 +0 .* Database Resync`)
	txns := ctl(t, l, "txns", "--node", "node1", "--last", "200")
	mustMatch(t, txns, `(?m)^node1 +\d+\.\d+ .* Add Pod; .*ipnet: wire pod default/past with `, `(?m)^node1 +- .* run \d+ was killed or crashed after `)
	seq := regexp.MustCompile(`(?ms)^node1 +(\d+\.\d+) [^\n]* Add Pod default/past$.* Delete Pod default/past$.*^node1 +(\d+\.\d+) [^\n]* Add Pod default/past$`).FindStringSubmatch(events)
	if seq == nil {
		t.Fatal("no number of the event")
	}
	event := ctl(t, l, "events", "node1", "--seq", seq[1])
	mustMatch(t, event, `Add Pod default/past`, `- ipnet: wire pod default/past`)
	txn := regexp.MustCompile("see `contivctl txns (\\S+) --node node1`").FindStringSubmatch(event)
	if txn == nil {
		t.Fatalf("no transaction in\n%s", event)
	}
	mustMatch(t, ctl(t, l, "txns", txn[1], "--node", "node1"), `transaction #\d+\.\d+ `, `CREATE +CONFIGURED .*config/vpp/v2/interfaces/vpp-tap-`, `Add Pod default/past`)
	mustMatch(t, ctl(t, l, "timeline", "past"), `(?m)^node1 .* \d+\.\d+ +gone `, `(?m)^node1 .* \d+\.\d+ +CONFIGURED `, `run \d+ was killed or crashed`, `(?m)^node1 .* \d\d:\d\d:[\d.]+ +\d+ +CONFIGURED `)

	// The restart changes only operational state of the pod's devices.
	last := ctl(t, l, "events", "node1", "--seq", seq[2])
	if txn = regexp.MustCompile("see `contivctl txns (\\S+) --node node1`").FindStringSubmatch(last); txn == nil {
		t.Fatalf("no transaction in\n%s", last)
	}
	diff := ctl(t, l, "diff", "--since", "txn:"+txn[1], "node1")
	for line := range strings.Lines(diff) {
		if strings.Contains(line, "-tap-") && !strings.Contains(line, "OBTAINED") {
			t.Errorf("changed by the restart: %s", line)
		}
	}
	before := ctl(t, l, "diff", "--from", "txn:"+seqBefore(t, txn[1]), "--to", "txn:"+txn[1], "node1")
	mustMatch(t, before, `(?m)^node1 +new +CONFIGURED .*config/vpp/v2/interfaces/vpp-tap-`)
}

// seqBefore returns the sequence number before seq, such as 3.16 before 3.17.
func seqBefore(t *testing.T, seq string) string {
	t.Helper()
	run, number, _ := strings.Cut(seq, ".")
	n, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s.%d", run, n-1)
}
