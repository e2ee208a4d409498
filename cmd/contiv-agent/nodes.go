package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/contiv/contiv/internal/agent/health"
	"github.com/contiv/contiv/internal/agent/hostinfo"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/nodesync"
)

// nodes are the nodes of the cluster with their IDs and addresses. claim protects the name of this node from
// a second agent.
type nodes struct {
	component
	*nodesync.NodeSync
	claim *nodesync.Claim
}

// newNodes returns the nodes. subnets returns the current address plan. ownStack is whether the vswitch has a network stack apart from the host's.
func newNodes(node string, ownStack bool, subnets func() contivconf.Subnets, etcd *etcdClient, events *eventLoop, links hostinfo.Links, log *slog.Logger) (*nodes, error) {
	claim, err := nodesync.NewClaim(node, log, func(key string, value []byte, mine func([]byte) bool, ttl time.Duration) nodesync.ClaimedKey {
		return etcd.NewClaim(key, value, mine, ttl)
	})
	if err != nil {
		return nil, err
	}
	plan := subnets()
	sync := nodesync.New(node, etcd, nodesync.Self{
		OwnStack:      &ownStack,
		IPAMOptions:   plan.ClusterOptions(),
		Claim:         claim.Err,
		HostAddresses: links.Prefixes,
		Host:          links.Published,
		OfPlan:        func(addr netip.Addr) string { now := subnets(); return now.Of(addr) },
	}, events.loop, log)
	return &nodes{component{
		name:   "nodes",
		events: []controller.EventHandler{sync},
		rest:   map[string]http.Handler{nodesync.NodesURL: sync.Handler()},
		checks: []health.Check{{Name: "node-records", Look: sync.Problems, Cluster: true}},
		tasks: []task{
			untilEnd(claim.Run),
			untilEnd(sync.Run),
			untilEnd(func(ctx context.Context) { sync.WatchHost(ctx, nodesync.HostPeriod) }),
		},
	}, sync, claim}, nil
}
