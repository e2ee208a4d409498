package main

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/contiv/contiv/internal/agent/health"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/ipam"
)

// addresses allocates the addresses of pods.
type addresses struct {
	component
	*ipam.IPAM
}

func newAddresses(network *networkConfig, nodes *nodes, pods *podList, events *eventLoop, log *slog.Logger) *addresses {
	a := ipam.New(network.ContivConf, nodes.NodeSync, pods.PodManager, events.loop, pods.Store(), log)
	return &addresses{component{
		name:   "addresses",
		events: []controller.EventHandler{a},
		rest:   map[string]http.Handler{ipam.URL: a.Handler()},
		checks: []health.Check{{Name: "pod-subnet", Look: func(context.Context) []string { return a.Full() }}},
	}, a}
}
