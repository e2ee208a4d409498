package health

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/contiv/contiv/internal/agent/health/published"
	"github.com/contiv/contiv/internal/etcd/store"
)

// rewrite is the interval in which an unchanged verdict is written again, in case etcd lost it.
const rewrite = 2 * time.Minute

// Publisher writes the verdict on a node into etcd, for KSR.
type Publisher struct {
	Monitor *Monitor
	Etcd    store.Broker
	Node    string
	Version string
	// Mine returns an error if another agent has this node's name.
	Mine func() error
	Log  *slog.Logger
}

// Run publishes the monitor's last result until ctx ends: changes soon, an unchanged result after
// rewrite.
func (p Publisher) Run(ctx context.Context) {
	var last published.Node
	failing := false
	for {
		if next := p.look(); p.Mine() == nil && (!same(last, next) || next.Time.Sub(last.Time) >= rewrite) {
			err := p.write(ctx, next)
			if err == nil {
				last = next
			} else if !failing && ctx.Err() == nil {
				p.Log.Warn("Publishing the health of this node in etcd failed", "error", err)
			}
			failing = err != nil
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(period / 3):
		}
	}
}

func (p Publisher) look() published.Node {
	problems := slices.DeleteFunc(slices.Clone(p.Monitor.Last()), func(problem Problem) bool { return problem.Cluster })
	n := published.Node{Verdict: p.Monitor.Verdict(problems), Problems: problems, Version: p.Version, Time: time.Now()}
	if err := p.Monitor.broken(); err != nil {
		n.Verdict, n.Error = Broken, err.Error()
	}
	return n
}

func same(a, b published.Node) bool {
	return a.Verdict == b.Verdict && a.Version == b.Version && published.Identity(a.Error) == published.Identity(b.Error) &&
		slices.EqualFunc(a.Problems, b.Problems, func(a, b Problem) bool {
			return a.Check == b.Check && published.Identity(a.Text) == published.Identity(b.Text)
		})
}

func (p Publisher) write(ctx context.Context, n published.Node) error {
	data, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return p.Etcd.Put(ctx, published.NodeKey(p.Node), data)
}
