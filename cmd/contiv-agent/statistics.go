package main

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/statscollector"
	"github.com/prometheus/client_golang/prometheus"
)

// noPods is the statscollector.Pods of a node without pods.
type noPods struct{}

func (noPods) PodInterfaces() map[string]podmanager.PodID { return nil }

// statistics counts the packets of interfaces, if interfaces is set, the drops of source guards and the
// translated connections, until ctx ends.
func statistics(ctx context.Context, node string, interfaces bool, southbound *southboundComponent, pods statscollector.Pods, log *slog.Logger) component {
	drops := statscollector.NewDrops(node, southbound.GuardDrops(ctx), pods, log)
	c := component{
		name:    "statistics",
		rest:    map[string]http.Handler{statscollector.DropsURL: drops.Handler()},
		metrics: []prometheus.Collector{drops},
	}
	if interfaces {
		c.metrics = append(c.metrics, statscollector.New(node, southbound.InterfaceStats(ctx), pods, log))
	}
	if sessions := southbound.Sessions(ctx); sessions != nil {
		c.metrics = append(c.metrics, statscollector.NewSessions(node, sessions, log))
	}
	return c
}
