package kvscheduler

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rogpeppe/go-internal/txtar"
)

const flowsPage = "../docs/design/control-flows.md"

// flows are the scenarios of the page, in order.
var flows = []string{
	"af-packet", "bridge-domain", "re-creation", "retry", "revert", "unnumbered", "kvdb", "grpc", "route-waits",
}

// TestControlFlowsPage draws the transactions that the scenarios mark with "diagram", and checks that the page
// contains exactly these. With -update, it writes the page.
func TestControlFlowsPage(t *testing.T) {
	var page strings.Builder
	page.WriteString("<!-- Written by `make diagrams`. -->\n" +
		"# Control flows\n\n" +
		"This page shows the [KVScheduler](kvscheduler.md) in typical situations. Each diagram is drawn\n" +
		"from the record of a transaction on a toy network, and `contivctl txns SEQ -o diagram` draws the\n" +
		"transactions of an agent. The scripts in [kvscheduler/testdata](../../kvscheduler/testdata) have\n" +
		"more steps and their output.\n\n" +
		"The words in brackets are flags of an operation. `NOOP`: only the state of the value changed.\n" +
		"`WAS-PENDING`: the dependencies of the value are now met.\n")
	for _, name := range flows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { drawFlow(t, &page, name) })
		})
	}
	if *updateScenarios {
		if err := os.WriteFile(flowsPage, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(flowsPage)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != page.String() {
		t.Errorf("%s is not current: run make diagrams", flowsPage)
	}
}

func drawFlow(t *testing.T, page *strings.Builder, name string) {
	archive, err := txtar.ParseFile("testdata/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	story, text, _ := strings.Cut(string(archive.Comment), "\n")
	_, title, ok := strings.Cut(strings.TrimSuffix(story, `".`), `"`)
	if !ok {
		t.Fatalf("%s: no title in quotes on the first line: %s", name, story)
	}
	fmt.Fprintf(page, "\n## %s\n\n%s\n", title, strings.TrimSpace(text))

	sc := &scenario{t: t, net: newNetwork()}
	sc.restart()
	defer func() { _ = sc.s.Close() }()
	madeIn := map[uint64]string{} // name of the step by sequence number
	for _, step := range archive.Files {
		sc.run(string(step.Data))
		for _, txn := range sc.s.History(noTime, noTime) {
			if _, known := madeIn[txn.SeqNum]; !known {
				madeIn[txn.SeqNum] = step.Name
			}
		}
	}
	if len(sc.drawn) == 0 {
		t.Fatalf("%s draws no diagram", name)
	}
	for _, seq := range slices.Compact(sc.drawn) {
		fmt.Fprintf(page, "\n*%s:*\n\n```mermaid\n", madeIn[seq])
		if err := Upper.Draw(page, sc.s.RecordedTxn(seq)); err != nil {
			t.Fatal(err)
		}
		page.WriteString("```\n")
	}
}

// Every scenario that draws a diagram is on the page.
func TestControlFlowsPageIsComplete(t *testing.T) {
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".txtar")
		if !ok {
			continue
		}
		script, err := os.ReadFile("testdata/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(script), "\n> diagram ") && !slices.Contains(flows, name) {
			t.Errorf("%s draws a diagram, but is not in flows", name)
		}
	}
}
