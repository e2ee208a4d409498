package main

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/contiv/contiv/internal/lib/metrics"
	"github.com/contiv/contiv/internal/lib/metrics/endpoint"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metricsServer serves the metrics of all components to Prometheus: in the REST API and, if flags say so,
// at a separate address.
func metricsServer(separate *endpoint.Endpoint, registry prometheus.Gatherer, log *slog.Logger) component {
	all := metrics.Conventional(registry)
	handler := promhttp.HandlerFor(all, promhttp.HandlerOpts{})
	return component{
		name: "metrics server",
		rest: map[string]http.Handler{
			"GET /metrics": handler,
			"GET /stats":   handler, // the path of the interface statistics in earlier versions
		},
		tasks: []task{func(ctx context.Context) error { return separate.Run(ctx, all, log, endpoint.Retry) }},
	}
}
