package main

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/contiv/contiv/internal/agent/health"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/policy"
	"github.com/contiv/contiv/internal/plugins/policy/denials"
	"github.com/contiv/contiv/internal/plugins/policy/verdict"
	"github.com/contiv/contiv/internal/vswitch/policyrules"
	"github.com/prometheus/client_golang/prometheus"
)

// policies renders network policies, and reports the traffic that they deny.
type policies struct {
	component
	*policy.Policy
	denials *denials.Keeper
}

func newPolicies(node string, capabilities policy.Capabilities, southbound *southboundComponent, events *eventLoop, nodes *nodes, pods *podList, addresses *addresses, podNetwork *podNetwork, log *slog.Logger) *policies {
	p := policy.New(capabilities, node, nodes.NodeSync, pods.PodManager, addresses.IPAM, podNetwork.IPNet, events.loop, log)
	denied := denials.New(denials.Options{
		Node: node, Read: southbound.Denials(), PodOf: p.PodOf, Denying: p.Denying,
		Why: func(c policyrules.Connection) []string { return verdict.Refused(southbound.Scheduler.Snapshot(), c) },
	})
	return &policies{component{
		name:    "policies",
		events:  []controller.EventHandler{p},
		rest:    map[string]http.Handler{policy.URL: p.Handler(), denials.URL: denied.Handler()},
		metrics: []prometheus.Collector{p, denied},
		checks:  []health.Check{{Name: "policies", Look: p.Problems, Cluster: true}},
		tasks: []task{
			untilEnd(denied.Run),
			untilEnd(func(ctx context.Context) {
				p.RunStatus(ctx, policy.Publish{Watch: southbound.Scheduler.Watch, VSwitch: southbound.Err, Replace: events.feedback.Replace})
			}),
		},
	}, p, denied}
}
