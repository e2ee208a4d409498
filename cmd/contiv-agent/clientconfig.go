package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"

	"github.com/contiv/contiv/internal/agent/localstore"
	"github.com/contiv/contiv/internal/agent/northbound"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store/bolt"
	"github.com/contiv/contiv/internal/lib/dirwatch"
	"github.com/contiv/contiv/internal/plugins/configdir"
	"github.com/contiv/contiv/internal/plugins/contivgrpc"
	"github.com/prometheus/client_golang/prometheus"
)

// clientConfig holds the sources of external configuration other than etcd: gRPC clients, and the files in
// --config-dir.
type clientConfig struct {
	component
	file      *bolt.Store
	grpc      *contivgrpc.Source
	directory *configdir.Source // nil without --config-dir
	server    *northbound.Server
	// listeners are nil once the server serves, which closes them.
	listeners []net.Listener
}

// openClientConfig reads the stored configuration and opens the listeners for clients.
func openClientConfig(ctx context.Context, o options, metrics prometheus.Registerer, log *slog.Logger) (*clientConfig, error) {
	file, err := localstore.OpenFile(o.grpcBolt, log)
	if err != nil {
		return nil, err
	}
	c := &clientConfig{file: file, server: northbound.NewServer(o.listener.Client, metrics, log)}
	c.component = component{name: "client configuration", close: c.close}
	if c.grpc, err = contivgrpc.NewSource(ctx, file, log); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if o.configDir != "" {
		if c.directory, err = configdir.New(ctx, dirwatch.Options{Dir: o.configDir}, file, log); err != nil {
			c.close()
			return nil, fmt.Errorf("--config-dir: %w", err)
		}
		c.rest = map[string]http.Handler{configdir.URL: c.directory.Handler()}
	}
	for _, address := range append([]string{"unix://" + filepath.Join(o.runDir, "grpc.sock")}, o.grpc...) {
		l, err := o.listener.ListenTrusted(address)
		if err != nil {
			c.close()
			return nil, fmt.Errorf("serve gRPC on %s: %w", address, err)
		}
		c.listeners = append(c.listeners, l)
	}
	return c, nil
}

// sources returns the sources in order of precedence: later ones override earlier ones.
func (c *clientConfig) sources() []controller.ExternalConfigSource {
	sources := []controller.ExternalConfigSource{c.grpc}
	if c.directory != nil {
		sources = append(sources, c.directory)
	}
	return sources
}

// close saves the accepted configuration. The event loop must have ended.
func (c *clientConfig) close() {
	for _, l := range c.listeners {
		l.Close()
	}
	c.grpc.Close()
	c.file.Close()
}
