package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/agent/health"
	"github.com/contiv/contiv/internal/agent/readiness"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/lib/version"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/prometheus/client_golang/prometheus"
)

type healthOptions struct {
	sources   readiness.Sources
	scheduler *kvscheduler.Scheduler
	// owners returns a function that names the owner of a key, see health.Drift.
	owners      func() func(key string) string
	directories []string
	// checks are the checks of all other components.
	checks []health.Check
}

// nodeHealth monitors the health of the node, and answers probes:
//
//	checks of all components ─┐
//	values, drift, disk ──────┴─> health.Monitor ──> /readiness?verbose, metrics
type nodeHealth struct {
	component
	monitor *health.Monitor
	sources readiness.Sources
}

func newHealth(o healthOptions) *nodeHealth {
	checks := slices.Concat([]health.Check{
		{Name: "etcd", Look: problemOf("etcd unreachable: ", o.sources.Connected)},
		{Name: "nodeconfig", Look: problemOf("NodeConfig invalid: ", o.sources.NodeConfig)},
		{Name: "vswitch", Look: o.sources.Warnings},
		health.Values(o.scheduler),
		health.Drift(o.scheduler, o.owners),
		health.Disk(o.directories...),
	}, inOrder(o.checks))
	n := &nodeHealth{monitor: health.NewMonitor(o.sources.Ready, checks...), sources: o.sources}
	n.sources.Health = n.monitor
	n.component = component{
		name:    "health",
		rest:    n.sources.Handlers(),
		metrics: []prometheus.Collector{n.monitor, health.NewStates(o.scheduler)},
		tasks:   []task{untilEnd(n.monitor.Run)},
	}
	return n
}

// checkOrder is the order in which the status of a node shows the problems that components find.
var checkOrder = []string{"etcd-space", "etcd-limits", "history", "peers", "network", "pods", "sandboxes", "addresses", "pod-subnet", "ksr",
	"etcd-values", "cluster-state", "node-records", "address-plan", "policies"}

// inOrder sorts the checks of components by checkOrder.
func inOrder(checks []health.Check) []health.Check {
	return slices.SortedStableFunc(slices.Values(checks), func(a, b health.Check) int {
		return slices.Index(checkOrder, a.Name) - slices.Index(checkOrder, b.Name)
	})
}

// problemOf returns the error of a check as a problem. check may be nil.
func problemOf(prefix string, check func() error) func(context.Context) []string {
	return func(context.Context) []string {
		if check == nil {
			return nil
		}
		if err := check(); err != nil {
			return []string{prefix + strings.TrimPrefix(err.Error(), "etcd: ")} // avoids repeating the prefix
		}
		return nil
	}
}

// warnings returns the warnings of a working node.
func warnings(southbound *southboundComponent, network *networkConfig, stn *stnReporter, nodes *nodes, services *services) func(context.Context) []string {
	return func(ctx context.Context) []string {
		list := slices.Concat(southbound.Warnings(ctx), network.Warnings(), stn.Warnings(), services.Warnings())
		if err := nodes.Disagreement(); err != nil {
			list = append(list, err.Error())
		}
		return list
	}
}

// directories returns the directories that the agent writes to.
func directories(o options) []string {
	list := []string{o.runDir, filepath.Dir(o.bolt), filepath.Dir(o.grpcBolt)}
	if o.historySize > 0 {
		list = append(list, o.historyDir)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// published publishes the verdict on the node in etcd, while no other agent has the name of the node.
func (n *nodeHealth) published(node string, etcd store.Broker, claimed func() error, log *slog.Logger) component {
	p := health.Publisher{Monitor: n.monitor, Etcd: etcd, Node: node, Version: version.Version, Mine: claimed, Log: log}
	return component{name: "published health", tasks: []task{untilEnd(p.Run)}}
}

// ligatoStatus publishes the agent's state in etcd like the vpp-agent, if controller.conf says so.
func (n *nodeHealth) ligatoStatus(node string, etcd store.Broker, config controller.Config, log *slog.Logger) component {
	c := component{name: "status for clients of the vpp-agent"}
	if config.LigatoStatus && etcd != nil {
		c.tasks = []task{untilEnd(n.sources.Publisher(node, etcd, log).Run)}
	}
	return c
}
