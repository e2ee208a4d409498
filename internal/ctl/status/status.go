package status

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/agent/health"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/plugins/configdir"
)

// States of agents.
const (
	Ready       = "ready"
	NotReady    = "not ready"
	Unreachable = "unreachable"
)

// Probe is the state of an agent.
type Probe struct {
	// Verdict is "healthy", "degraded" or "broken".
	Verdict string `json:"verdict"`
	// State is "ready" or "not ready".
	State   string `json:"state"`
	Version string `json:"version,omitempty"`
	// Problem is the reason for "not ready".
	Problem string `json:"problem,omitempty"`
	// Database is the reason why the agent does not follow etcd. A ready agent works without etcd.
	Database string `json:"database,omitempty"`
	// NodeConfig is the reason why the NodeConfig in etcd is not applied.
	NodeConfig string `json:"nodeConfig,omitempty"`
	// Problems lists all problems by check, including Database and NodeConfig.
	Problems []health.Problem `json:"problems,omitempty"`
	// Notes list requested functions that the node does not support. They do not change the
	// verdict.
	Notes []string `json:"notes,omitempty"`
	// ConfigDir lists the mistakes in the agent's configuration directory.
	ConfigDir []string `json:"configDir,omitempty"`

	clock clock
}

// clock is the offset of a node's clock from ours, plus or minus precision. The zero value is
// unknown.
type clock struct{ ahead, precision time.Duration }

// clockOf returns the clock of a node that reported its time, in whole seconds, between begin and
// end.
func clockOf(seconds int64, begin, end time.Time) clock {
	if seconds == 0 {
		return clock{}
	}
	const half = time.Second / 2
	wait := end.Sub(begin) / 2
	return clock{time.Unix(seconds, 0).Add(half).Sub(begin.Add(wait)), half + wait}
}

func (p Probe) verdict() string {
	switch {
	case p.State != Ready:
		return health.Broken
	case len(p.ConfigDir) > 0 || slices.ContainsFunc(p.Problems, func(problem health.Problem) bool { return !problem.Cluster }):
		return health.Degraded
	}
	return health.Healthy
}

type answer struct {
	Version, Error, Database, NodeConfig string
	Warnings                             []string
	Verdict                              string
	Problems                             []health.Problem
	Notes                                []string
	Time                                 int64 `json:"last_update"` // Unix seconds
}

// Ask returns the state of an agent's node, or an error if the agent does not answer.
func Ask(ctx context.Context, a *target.Agent) (Probe, error) {
	p, err := readiness(ctx, a, url.Values{"verbose": {""}})
	if err != nil {
		return p, err
	}
	var dir configdir.Status
	if a.Get(ctx, configdir.URL, nil, &dir) == nil { // otherwise the agent has no directory
		p.ConfigDir = mistakesIn(dir)
	}
	p.Verdict = p.verdict()
	return p, nil
}

// AskReady only requests the readiness, which is fast.
func AskReady(ctx context.Context, a *target.Agent) (Probe, error) { return readiness(ctx, a, nil) }

func readiness(ctx context.Context, a *target.Agent, query url.Values) (Probe, error) {
	var h answer
	begin := time.Now()
	err := a.Get(ctx, "/readiness", query, &h)
	end := time.Now()
	var refused *target.StatusError
	if err != nil && !errors.As(err, &refused) {
		return Probe{}, err
	}
	p := Probe{State: Ready}
	if refused != nil {
		p.State, p.Problem = NotReady, refused.Text
		_ = json.Unmarshal(refused.Body, &h)
	}
	p.Version, p.Database, p.NodeConfig, p.Problems, p.Notes = h.Version, h.Database, h.NodeConfig, h.Problems, h.Notes
	p.clock = clockOf(h.Time, begin, end)
	if h.Verdict == "" { // an old agent without checks: derive the verdict
		p.Problems = h.told()
	}
	return p, nil
}

func (h answer) told() (problems []health.Problem) {
	add := func(check, text string) {
		problems = append(problems, health.Problem{Check: check, Text: text})
	}
	if h.Database != "" {
		add("etcd", "etcd unreachable: "+strings.TrimPrefix(h.Database, "etcd: "))
	}
	if h.NodeConfig != "" {
		add("nodeconfig", "NodeConfig invalid: "+h.NodeConfig)
	}
	for _, warning := range h.Warnings {
		add("vswitch", warning)
	}
	return problems
}

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
			text += "; its previous content is used"
		case configdir.Nothing:
			text += "; it is ignored"
		}
		mistakes = append(mistakes, text)
	}
	return mistakes
}

func oneLine(text string) string { return strings.ReplaceAll(text, "\n", "; ") }

// since formats the duration of a problem, or its start if now is zero. A new problem returns "".
func since(start, now time.Time) string {
	lasting := now.Sub(start)
	switch {
	case start.IsZero():
		return ""
	case now.IsZero():
		return " (since " + start.Local().Format("01-02 15:04:05") + ")"
	case lasting < time.Minute:
		return ""
	case lasting < 2*time.Hour:
		return " (for " + strconv.Itoa(int(lasting.Minutes())) + "m)"
	case lasting < 48*time.Hour:
		return " (for " + strconv.Itoa(int(lasting.Hours())) + "h)"
	}
	return " (since " + start.Local().Format(time.DateOnly) + ")"
}
