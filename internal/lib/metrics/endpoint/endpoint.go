// Package endpoint serves only the metrics of a program, at addresses that Prometheus can reach
// from other hosts. The program's other handlers stay on loopback and sockets.
//
//	registry ──> Endpoint ──mutual TLS──> Prometheus
package endpoint

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"
)

// Retry is the delay before another attempt to listen.
const Retry = 10 * time.Second

// Endpoint configures the addresses of /metrics. The zero value serves nothing.
type Endpoint struct {
	// Addresses have the form IP:PORT or :PORT.
	Addresses []string
	// Listener names the three required certificate files.
	Listener listener.Options
}

// Flags registers the flags of an endpoint.
func (e *Endpoint) Flags(f *pflag.FlagSet) {
	f.StringSliceVar(&e.Addresses, "metrics", nil, "addresses that serve only /metrics, with mutual TLS, such as :9998 (default: none; --http also serves /metrics)")
	f.StringVar(&e.Listener.CertFile, "metrics-cert-file", "", "server certificate of --metrics (PEM)")
	f.StringVar(&e.Listener.KeyFile, "metrics-key-file", "", "private key of --metrics-cert-file (PEM)")
	f.StringVar(&e.Listener.ClientCAFile, "metrics-client-ca-file", "", "certificate authorities of clients of --metrics (PEM)")
}

// Check returns an error if addresses lack certificates.
func (e *Endpoint) Check() error {
	if l := e.Listener; len(e.Addresses) > 0 && (l.CertFile == "" || l.KeyFile == "" || l.ClientCAFile == "") {
		return errors.New("--metrics needs --metrics-cert-file, --metrics-key-file and --metrics-client-ca-file")
	}
	return nil
}

// Run serves until ctx ends; it returns at once without addresses. Errors, such as a missing
// certificate, are logged and retried.
func (e *Endpoint) Run(ctx context.Context, metrics prometheus.Gatherer, log *slog.Logger, retry time.Duration) error {
	if len(e.Addresses) == 0 {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	for {
		server, err := rest.Listen(e.Listener, nil, e.Addresses...)
		if err == nil {
			log.Info("Serving metrics", "addresses", server.Addrs())
			err = server.Serve(ctx, mux)
		}
		if ctx.Err() != nil {
			return nil
		}
		log.Error("Serving metrics failed", "addresses", e.Addresses, "error", err, "again", retry)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retry):
		}
	}
}
