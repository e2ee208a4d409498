package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/contiv/contiv/internal/agent/health"
	"github.com/contiv/contiv/internal/agent/health/published"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/ctl/text"
)

// Compare adds problems between nodes: versions that differ from the majority and, if the answers
// are live, clocks that differ.
func Compare(probes []target.Answer[Probe], live bool) {
	compareVersions(probes)
	if live {
		compareClocks(probes)
	}
}

// clocksDiffer is the tolerated difference.
const clocksDiffer = 2 * time.Second

func compareClocks(probes []target.Answer[Probe]) {
	var known []int
	for i, a := range probes {
		if a.Err == nil && a.Value.clock != (clock{}) {
			known = append(known, i)
		}
	}
	if len(known) < 2 {
		return
	}
	slices.SortStableFunc(known, func(a, b int) int { return cmp.Compare(probes[a].Value.clock.ahead, probes[b].Value.clock.ahead) })
	middle := probes[known[(len(known)-1)/2]]
	for _, i := range known {
		p := &probes[i].Value
		ahead := p.clock.ahead - middle.Value.clock.ahead
		if ahead.Abs() <= clocksDiffer+p.clock.precision+middle.Value.clock.precision {
			continue
		}
		where := "ahead of"
		if ahead < 0 {
			where = "behind"
		}
		p.Problems = append(p.Problems, health.Problem{Check: "clock", Text: fmt.Sprintf("its clock is %s %s the clock of node %s: synchronise the clocks, for example with NTP", ahead.Abs().Round(time.Second), where, middle.Agent.Name)})
		p.Verdict = p.verdict()
	}
}

func compareVersions(probes []target.Answer[Probe]) {
	count := map[string]int{}
	for _, a := range probes {
		if a.Err == nil && a.Value.Version != "" {
			count[a.Value.Version]++
		}
	}
	if len(count) < 2 {
		return
	}
	usual := slices.MaxFunc(slices.Sorted(maps.Keys(count)), func(a, b string) int { return cmp.Compare(count[a], count[b]) })
	for i := range probes {
		p := &probes[i].Value
		if probes[i].Err != nil || p.Version == "" || p.Version == usual {
			continue
		}
		p.Problems = append(p.Problems, health.Problem{Check: "version", Text: fmt.Sprintf("the agent has version %s, but most agents %s: complete the upgrade", p.Version, usual)})
		p.Verdict = p.verdict()
	}
}

// Worst returns the worst verdict of all nodes and the cluster.
func Worst(probes []target.Answer[Probe]) string {
	worst := health.Healthy
	for _, a := range probes {
		switch {
		case a.Err != nil || a.Value.Verdict == health.Broken:
			return health.Broken
		case a.Value.Verdict == health.Degraded, len(a.Value.Problems) > 0:
			worst = health.Degraded
		}
	}
	return worst
}

const maxMistakes = 3

// Write prints a line for each node and problem. It shows durations up to now or, if now is zero,
// the start of problems.
func Write(p text.Printer, probes []target.Answer[Probe], now time.Time) {
	t := p.Table("NODE", "VERDICT", "AGENT", "VERSION", "REMARK")
	t.Spare("VERSION")
	for i, remark := range shared(probes, now) {
		if i == 0 {
			t.Add("(cluster)", health.Degraded, "-", "-", remark)
		} else {
			t.Add(" ", " ", " ", " ", remark)
		}
	}
	for _, a := range probes {
		verdict, state := a.Value.Verdict, a.Value.State
		if a.Err != nil {
			verdict, state = health.Broken, Unreachable
		}
		cells := []string{a.Agent.Name, verdict, state, a.Value.Version}
		remarks := Remarks(a.Value, now)
		for _, note := range a.Value.Notes {
			remarks = append(remarks, "note: "+note)
		}
		for _, remark := range append(remarks, "") {
			if remark == "" && cells[0] == " " {
				break
			}
			t.Add(append(cells, remark)...)
			cells = []string{" ", " ", " ", " "}
		}
	}
	t.Print()
}

func shared(probes []target.Answer[Probe], now time.Time) (list []string) {
	type told struct {
		text  string
		since time.Time
	}
	var all []*told
	known := map[string]*told{}
	for _, a := range probes {
		for _, problem := range a.Value.Problems {
			if !problem.Cluster {
				continue
			}
			id := published.Identity(problem.Text)
			if before := known[id]; before == nil {
				known[id] = &told{problem.Text, problem.Since}
				all = append(all, known[id])
			} else if problem.Since.Before(before.since) {
				before.since = problem.Since
			}
		}
	}
	for _, problem := range all {
		list = append(list, problem.text+since(problem.since, now))
	}
	return list
}

// Remarks describes the problems of the node itself, one per line, with durations up to now.
func Remarks(p Probe, now time.Time) (list []string) {
	if p.Problem != "" {
		list = append(list, p.Problem)
	}
	for _, problem := range p.Problems {
		if problem.Cluster {
			continue
		}
		text := problem.Text
		if problem.Check == "etcd" && p.State != Ready { // the agent may wait for etcd
			text = "etcd unreachable: " + p.Database
		}
		list = append(list, text+since(problem.Since, now))
	}
	for i, mistake := range p.ConfigDir {
		if i == maxMistakes {
			list = append(list, fmt.Sprintf("%d more mistakes in --config-dir", len(p.ConfigDir)-i))
			break
		}
		list = append(list, "mistake in --config-dir: "+mistake)
	}
	return list
}
