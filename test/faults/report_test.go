package faults

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/contiv/contiv/test/labtest"
)

type row struct {
	// Fault is its name, What its implementation.
	Fault, What string
	Sent, Lost  int
	// Kept describes other effects.
	Kept string
	// Healed is the duration from the repair until the condition Until.
	Healed time.Duration
	Until  string
	Sees   []string
}

var report reporter

type reporter struct {
	mu   sync.Mutex
	rows []row
}

func (r *reporter) add(row row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, row)
}

// order lists the faults of the report. finish fails if one is missing.
var order = []string{
	"etcd is down at start",
	"etcd is down at start, no mirror",
	"etcd never comes, no mirror",
	"etcd hangs at start",
	"etcd is down",
	"etcd hangs",
	"etcd is slow",
	"etcd is compacted",
	"etcd is wiped",
	"etcd is wiped before the start",
	"Agent killed at each step of ADD",
	"Agent killed at each step of a resync",
	"Local file is missing",
	"Local file is corrupt",
	"Local file is from another version",
	"Disk is full",
	"Second agent on the same node",
	"Agent on another node with the same name",
	"Clock jumps",
}

func (r *reporter) finish() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, row := range r.rows {
		if !slices.Contains(order, row.Fault) {
			return fmt.Errorf("fault %q has no place in the report", row.Fault)
		}
	}
	slices.SortFunc(r.rows, func(a, b row) int {
		return cmp.Compare(slices.Index(order, a.Fault), slices.Index(order, b.Fault))
	})
	for _, row := range r.rows {
		fmt.Printf("%-45s %5d packets, %d lost; healed after %v\n", row.Fault, row.Sent, row.Lost, round(row.Healed))
	}
	if !*writeReport {
		return nil
	}
	if len(r.rows) != len(order) {
		return fmt.Errorf("the report would have %d faults of %d: run all tests, with -clock", len(r.rows), len(order))
	}
	return os.WriteFile(filepath.Join(labtest.Root, "docs", "design", "faults.md"), []byte(r.markdown()), 0o644)
}

func round(d time.Duration) time.Duration {
	if d > time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(10 * time.Millisecond)
}

const preface = `# Faults

This page shows how an agent behaves when its environment fails, and how long healing takes.
` + "`go test ./test/faults -args -write -clock`" + ` writes it. Each fault happens in a [lab](../user/lab.md), while a pod
sends a packet every %v to a pod on the same node, to one on another node and to a host outside. No packet is lost.
Times are from one run on a small machine with several labs and the default configuration.

| fault | healed |
|---|---|
`

func (r *reporter) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, preface, interval)
	for _, row := range r.rows {
		fmt.Fprintf(&b, "| %s | %v %s |\n", row.Fault, round(row.Healed), row.Until)
	}
	for _, row := range r.rows {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", row.Fault, row.What)
		if row.Kept != "" {
			fmt.Fprintf(&b, "\n%s\n", row.Kept)
		}
		if len(row.Sees) > 0 {
			b.WriteString("\n")
		}
		for _, text := range row.Sees {
			fmt.Fprintf(&b, "- %s\n", text)
		}
	}
	return b.String()
}
