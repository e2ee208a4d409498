package main

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/contiv/contiv/listener"
	"github.com/contiv/contiv/rest"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metricsServer serves /metrics, and nothing else, at addresses that Prometheus reaches from
// elsewhere. The REST API, which has them too, is on loopback, where kubelet asks without a
// certificate.
type metricsServer struct {
	addresses []string
	options   listener.Options
	metrics   prometheus.Gatherer
	log       *slog.Logger
}

// metricsRetry is when the addresses are tried again.
const metricsRetry = 10 * time.Second

// run returns when ctx ends. A node works without metrics: what goes wrong, such as a
// certificate that is missing, is logged and tried again after a while.
func (s *metricsServer) run(ctx context.Context, retry time.Duration) error {
	if len(s.addresses) == 0 {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics, promhttp.HandlerOpts{}))
	for {
		server, err := rest.Listen(s.options, nil, s.addresses...)
		if err == nil {
			s.log.Info("Metrics are served", "addresses", server.Addrs())
			err = server.Serve(ctx, mux)
		}
		if ctx.Err() != nil {
			return nil
		}
		s.log.Error("Metrics are not served", "addresses", s.addresses, "error", err, "again", retry)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retry):
		}
	}
}

func (o *options) metricsServer(metrics prometheus.Gatherer, log *slog.Logger) *metricsServer {
	return &metricsServer{addresses: o.metrics, options: o.metricsListener, metrics: metrics, log: log}
}
