package ctl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/ctl/target"
	"github.com/contiv/contiv/plugins/configdir"
	"github.com/spf13/cobra"
)

// States of agents.
const (
	ready       = "ready"
	notReady    = "not ready"
	unreachable = "unreachable"
)

// Verdicts on nodes.
const (
	healthy  = "healthy"
	degraded = "degraded" // the node works, but something is not as it should be
	broken   = "broken"   // it cannot be relied on
)

// Probe is an agent's state.
type Probe struct {
	// Verdict is "healthy", "degraded" or "broken".
	Verdict string `json:"verdict"`
	// State is "ready" or "not ready".
	State   string `json:"state"`
	Version string `json:"version,omitempty"`
	// Problem is why it is not ready.
	Problem string `json:"problem,omitempty"`
	// Database is why it does not follow etcd. A ready agent works without.
	Database string `json:"database,omitempty"`
	// NodeConfig is why the NodeConfig in etcd is not in force.
	NodeConfig string `json:"nodeConfig,omitempty"`
	// Warnings say what may keep the vswitch from working some day.
	Warnings []string `json:"warnings,omitempty"`
	// ConfigDir are the mistakes in the agent's directory of configuration.
	ConfigDir []string `json:"configDir,omitempty"`
	// Values that are not as they should be: a line for each state.
	Values []string `json:"values,omitempty"`
}

func (p Probe) verdict() string {
	switch {
	case p.State != ready:
		return broken
	case p.Database != "" || p.NodeConfig != "" || len(p.Warnings)+len(p.ConfigDir)+len(p.Values) > 0:
		return degraded
	}
	return healthy
}

// health is what an agent answers to GET /readiness.
type health struct {
	Version, Error, Database, NodeConfig string
	Warnings                             []string
}

// probe asks an agent if it is ready; the error is for an agent that does not
// answer.
func probe(ctx context.Context, a *Agent) (Probe, error) {
	p, err := probeHealth(ctx, a)
	if err != nil {
		return p, err
	}
	var dir configdir.Status
	if a.Get(ctx, configdir.URL, nil, &dir) == nil { // else there is none
		p.ConfigDir = mistakesIn(dir)
	}
	if p.State == ready {
		p.Values = badValues(ctx, a)
	}
	p.Verdict = p.verdict()
	return p, nil
}

// badStates of values: who asked for them does not get what he wants.
var badStates = []pb.ValueState{pb.ValueState_FAILED, pb.ValueState_RETRYING, pb.ValueState_INVALID, pb.ValueState_UNIMPLEMENTED}

// badValues returns a line for each bad state: how many values, and one of them.
func badValues(ctx context.Context, a *Agent) (lines []string) {
	query := url.Values{}
	for _, state := range badStates {
		query.Add("state", state.String())
	}
	values, err := valuesOf(ctx, a, query)
	if err != nil {
		return []string{"the states of its values cannot be had: " + oneLine(err.Error())}
	}
	found := map[pb.ValueState][]*pb.ValueStatus{}
	for _, v := range values {
		for _, status := range append([]*pb.ValueStatus{v.GetValue()}, v.GetDerivedValues()...) {
			found[status.GetState()] = append(found[status.GetState()], status)
		}
	}
	for _, state := range badStates {
		if bad := found[state]; len(bad) > 0 {
			lines = append(lines, oneLine(fmt.Sprintf("%s %s, such as %s: %s", count(len(bad), "value"), state, bad[0].GetKey(), bad[0].GetError())))
		}
	}
	return lines
}

// mistakesIn returns a line for the directory, if it cannot be read, and for each file
// with a mistake.
func mistakesIn(dir configdir.Status) (mistakes []string) {
	if dir.Err != "" {
		mistakes = append(mistakes, oneLine(dir.Err))
	}
	for _, file := range dir.Files {
		if file.Err == "" {
			continue
		}
		text := oneLine(file.Err)
		if !strings.Contains(text, file.Name) {
			text = file.Name + ": " + text
		}
		switch file.Of {
		case configdir.Earlier:
			text += "; what it said before counts"
		case configdir.Nothing:
			text += "; nothing of it counts"
		}
		mistakes = append(mistakes, text)
	}
	return mistakes
}

func oneLine(text string) string { return strings.ReplaceAll(text, "\n", "; ") }

func probeHealth(ctx context.Context, a *Agent) (Probe, error) {
	var h health
	err := a.Get(ctx, "/readiness", nil, &h)
	var refused *target.StatusError
	if err != nil && !errors.As(err, &refused) {
		return Probe{}, err
	}
	state, problem := ready, ""
	if refused != nil {
		state, problem = notReady, refused.Text
		_ = json.Unmarshal(refused.Body, &h) // what it does not say is left out
	}
	return Probe{State: state, Version: h.Version, Problem: problem, Database: h.Database, NodeConfig: h.NodeConfig, Warnings: h.Warnings}, nil
}

func (c *cli) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Whether the nodes are healthy, degraded or broken, and why",
		Long: "Says of each node whether it is healthy, degraded (it works, but something is not as it should be) or\n" +
			"broken (its agent does not answer, or is not ready), and why: values that failed or cannot be, the lack\n" +
			"of etcd, warnings of the vswitch, mistakes in what the agent is to read.\n\n" +
			"The exit code is 0 if all nodes are healthy, 1 if one is degraded, 2 if one is broken.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := c.limited(cmd)
			defer cancel()
			agents, err := c.targets.Selected(ctx, nil)
			if err != nil {
				return err
			}
			probes := target.Ask(ctx, agents, probe)
			err = show(c, probes, func(printer, []answer[Probe]) {})
			if c.format == asTable {
				writeProbes(c.printer(), probes)
			}
			worst := err
			for _, p := range probes {
				switch {
				case p.Err != nil || p.Value.Verdict == broken:
					return &exitError{ErrReported, 2} // the table says why
				case p.Value.Verdict == degraded:
					worst = cmp.Or(worst, ErrReported)
				}
			}
			return worst
		},
	}
}

func writeProbes(p printer, probes []answer[Probe]) {
	t := p.Table("NODE", "VERDICT", "AGENT", "VERSION", "REMARK")
	for _, a := range probes {
		verdict, state := a.Value.Verdict, a.Value.State
		if a.Err != nil {
			verdict, state = broken, unreachable
		}
		var remarks []string
		if a.Value.Problem != "" {
			remarks = append(remarks, a.Value.Problem)
		}
		if a.Value.Database != "" {
			remarks = append(remarks, databaseRemark(a.Value))
		}
		if a.Value.NodeConfig != "" {
			remarks = append(remarks, "refused: "+a.Value.NodeConfig)
		}
		for _, warning := range a.Value.Warnings {
			remarks = append(remarks, "warning: "+warning)
		}
		remarks = append(remarks, a.Value.Values...)
		for i, mistake := range a.Value.ConfigDir {
			if i == 3 {
				remarks = append(remarks, fmt.Sprintf("%d more mistakes in --config-dir", len(a.Value.ConfigDir)-i))
				break
			}
			remarks = append(remarks, "mistake in --config-dir: "+mistake)
		}
		t.Add(a.Agent.Name, verdict, state, a.Value.Version, strings.Join(remarks, "; "))
	}
	t.Print()
}

// databaseRemark says what the lack of etcd means: an agent that has started works
// without; one that has not may be waiting for it.
func databaseRemark(p Probe) string {
	if p.State == ready {
		return "works without etcd: " + p.Database
	}
	return "without etcd: " + p.Database
}
