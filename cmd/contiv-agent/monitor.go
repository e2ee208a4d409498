package main

import (
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/contiv/contiv/controller/feedback"
	"github.com/contiv/contiv/health"
	"github.com/contiv/contiv/health/path"
	"github.com/contiv/contiv/health/peers"
	"github.com/contiv/contiv/health/ping"
	"github.com/contiv/contiv/history"
	"github.com/contiv/contiv/plugins/ipam"
	"github.com/contiv/contiv/plugins/nodesync"
	"github.com/contiv/contiv/version"
	"github.com/prometheus/client_golang/prometheus"
)

// monitored returns the checks with a monitor of the node: of the checks themselves and more. See
// health.Drift for owners. probes, network and recorder may be nil.
//
//	checks (etcd, NodeConfig, vswitch) ─┐
//	values, drift, disk ────────────────┼─> health.Monitor ──> /readiness?verbose, metrics
//	probes of peers, the node's network ┘
func (c checks) monitored(o options, sb *southbound, owners func() func(key string) string, probes *peers.Prober, network *path.Network, recorder *history.Recorder, registry prometheus.Registerer, more ...health.Check) checks {
	list := []health.Check{
		{Name: "etcd", Look: sentence("etcd unreachable: ", c.connected)},
		{Name: "nodeconfig", Look: sentence("NodeConfig invalid: ", c.nodeConfig)},
		{Name: "vswitch", Look: c.warnings},
		health.Values(sb.scheduler),
		health.Drift(sb.scheduler, owners),
		health.Disk(directories(o)...),
	}
	if c.full != nil {
		list = append(list, health.Check{Name: "etcd-space", Look: func(ctx context.Context) []string {
			return sentence("", func() error { return c.full(ctx) })(ctx)
		}})
	}
	if c.limits != nil {
		list = append(list, health.Check{Name: "etcd-limits", Cluster: true, Look: func(ctx context.Context) []string {
			_, refused := c.limits(ctx)
			if refused == "" {
				return nil
			}
			return []string{refused}
		}})
	}
	if recorder != nil {
		list = append(list, health.Check{Name: "history", Look: recorder.Problems})
	}
	if probes != nil {
		list = append(list, health.Check{Name: "peers", Look: probes.Problems})
		registry.MustRegister(probes)
	}
	if network != nil {
		list = append(list, health.Check{Name: "network", Look: network.Problems})
	}
	c.health = health.NewMonitor(c.ready, append(list, more...)...)
	registry.MustRegister(c.health, health.NewStates(sb.scheduler))
	return c
}

// inEtcd checks for values in etcd that cannot be decoded. health.Values covers the scheduler's.
func inEtcd(p *feedback.Publisher) health.Check {
	return health.Check{Name: "etcd-values", Look: p.Problems}
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

func sentence(before string, check func() error) func(context.Context) []string {
	return func(context.Context) []string {
		if check == nil {
			return nil
		}
		if err := check(); err != nil {
			return []string{before + strings.TrimPrefix(err.Error(), "etcd: ")} // avoids repeating the prefix
		}
		return nil
	}
}

// probePeers probes the chosen peers at the gateways of their pods.
func probePeers(o options, nodes *nodesync.NodeSync, addresses *ipam.IPAM, mtu func() uint32, log *slog.Logger) *peers.Prober {
	if o.probeInterval == 0 {
		return nil
	}
	return peers.New(peers.Options{
		Interval: o.probeInterval,
		Open:     func() (peers.Pinger, error) { return ping.Open(nil, netip.Addr{}) },
		Peers:    func() []peers.Peer { return chosenPeers(o.nodeName, nodes.GetAllNodes(), addresses, int(mtu())) },
		Log:      component(log, "peers"),
	})
}

// chosenPeers returns the chosen peers, one entry per address.
func chosenPeers(self string, nodes nodesync.Nodes, addresses *ipam.IPAM, mtu int) (list []peers.Peer) {
	this, known := nodes[self]
	if !known || mtu == 0 {
		return nil
	}
	var others []*nodesync.Node
	for _, n := range nodes {
		if n != this && len(n.VPPIPs) > 0 {
			others = append(others, n)
		}
	}
	for _, n := range peers.Choose(this.ID, others, func(n *nodesync.Node) uint32 { return n.ID }) {
		for _, subnet := range addresses.PodSubnets(n) {
			list = append(list, peers.Peer{Node: n.Name, Address: ipam.Gateway(subnet).Addr(), Size: mtu})
		}
	}
	slices.SortFunc(list, func(a, b peers.Peer) int { return cmp.Or(cmp.Compare(a.Node, b.Node), a.Address.Compare(b.Address)) })
	return list
}

// defaultProbeInterval is the interval between probes of a peer.
const defaultProbeInterval = 15 * time.Second

// openHistory opens the history that survives restarts; nil if it is disabled.
func openHistory(o options, log *slog.Logger) *history.Recorder {
	if o.historySize == 0 {
		return nil
	}
	return history.Open(history.Options{
		Dir: o.historyDir, Bytes: int64(o.historySize) << 20, Age: o.historyAge,
		Node: o.nodeName, Version: version.Version, Log: component(log, "history"),
	})
}
