// Package endpoint serves the metrics of a program, and nothing else, at addresses that Prometheus
// reaches from other hosts. What else the program serves stays on loopback and on sockets.
//
//	registry ──> Endpoint ──TLS, certificates of both sides──> Prometheus
package endpoint

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/contiv/contiv/listener"
	"github.com/contiv/contiv/rest"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"
)

// Retry is how long a program waits before it tries the addresses again.
const Retry = 10 * time.Second

// Endpoint says where a program serves /metrics. The zero value serves nothing.
type Endpoint struct {
	// Addresses have the form IP:PORT or :PORT.
	Addresses []string
	// Listener names the certificates, all three of which are needed.
	Listener listener.Options
}

// Flags defines the flags of an endpoint.
func (e *Endpoint) Flags(f *pflag.FlagSet) {
	f.StringSliceVar(&e.Addresses, "metrics", nil, "addresses such as :9998 of /metrics alone, over TLS for clients with a certificate (default: none; they are at --http, too)")
	f.StringVar(&e.Listener.CertFile, "metrics-cert-file", "", "certificate of this server at --metrics (PEM)")
	f.StringVar(&e.Listener.KeyFile, "metrics-key-file", "", "key of that certificate (PEM)")
	f.StringVar(&e.Listener.ClientCAFile, "metrics-client-ca-file", "", "authorities that sign certificates of those who may ask at --metrics (PEM)")
}

// Check fails if there are addresses, but no certificates for them.
func (e *Endpoint) Check() error {
	if l := e.Listener; len(e.Addresses) > 0 && (l.CertFile == "" || l.KeyFile == "" || l.ClientCAFile == "") {
		return errors.New("--metrics needs --metrics-cert-file, --metrics-key-file and --metrics-client-ca-file")
	}
	return nil
}

// Run returns when ctx ends, or at once if there are no addresses. A program works without its
// endpoint: what goes wrong, such as a certificate that is missing, is logged and tried again
// after a while.
func (e *Endpoint) Run(ctx context.Context, metrics prometheus.Gatherer, log *slog.Logger, retry time.Duration) error {
	if len(e.Addresses) == 0 {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	for {
		server, err := rest.Listen(e.Listener, nil, e.Addresses...)
		if err == nil {
			log.Info("Metrics are served", "addresses", server.Addrs())
			err = server.Serve(ctx, mux)
		}
		if ctx.Err() != nil {
			return nil
		}
		log.Error("Metrics are not served", "addresses", e.Addresses, "error", err, "again", retry)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retry):
		}
	}
}
