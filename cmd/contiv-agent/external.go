package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"

	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/dirwatch"
	"github.com/contiv/contiv/northbound"
	"github.com/contiv/contiv/northbound/ifstate"
	"github.com/contiv/contiv/plugins/configdir"
	"github.com/contiv/contiv/plugins/contivgrpc"
	"github.com/contiv/contiv/store/bolt"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

// external holds the sources of external configuration other than etcd.
type external struct {
	file      *bolt.Store
	source    *contivgrpc.Source
	directory *configdir.Source // nil without --config-dir
	server    *northbound.Server
	// listeners belong to the server, which closes them.
	listeners []net.Listener
}

// openExternal reads the stored configuration and opens the listeners for clients.
func openExternal(ctx context.Context, o options, metrics prometheus.Registerer, log *slog.Logger) (*external, error) {
	file, err := openFile(o.grpcBolt, log)
	if err != nil {
		return nil, err
	}
	g := &external{file: file, server: northbound.NewServer(o.listener.Client, metrics, log)}
	if g.source, err = contivgrpc.NewSource(ctx, file, log); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if o.configDir != "" {
		if g.directory, err = configdir.New(ctx, dirwatch.Options{Dir: o.configDir}, file, log); err != nil {
			g.Close()
			return nil, fmt.Errorf("--config-dir: %w", err)
		}
	}
	for _, address := range append([]string{"unix://" + filepath.Join(o.runDir, "grpc.sock")}, o.grpc...) {
		l, err := o.listener.ListenTrusted(address)
		if err != nil {
			g.Close()
			return nil, fmt.Errorf("serve gRPC on %s: %w", address, err)
		}
		g.listeners = append(g.listeners, l)
	}
	return g, nil
}

// sources returns the sources in order of precedence: later ones override earlier ones.
func (g *external) sources() []controller.ExternalConfigSource {
	sources := []controller.ExternalConfigSource{g.source}
	if g.directory != nil {
		sources = append(sources, g.directory)
	}
	return sources
}

func (g *external) handle(mux *http.ServeMux) {
	if g.directory != nil {
		mux.Handle(configdir.URL, g.directory.Handler())
	}
}

// serve serves clients until the server stops, and watches the directory until ctx ends. The
// watches of clients also end with ctx.
func (g *external) serve(ctx context.Context, group *errgroup.Group, loop *controller.Controller, sb *southbound, states *ifstate.Keeper, log *slog.Logger) {
	service := contivgrpc.NewService(g.source, loop, sb.scheduler, log)
	service.Register(g.server)
	ligato := northbound.NewLigato(northbound.Options{
		Clients: service, Items: g.source.Items, External: loop.ExternalValues,
		Scheduler: sb.scheduler, States: sb.vs.States().List, Log: log,
	})
	states.Observe(ligato.InterfaceChanged)
	ligato.Register(g.server)
	northbound.NewStatusService(sb.scheduler, ctx.Done()).Register(g.server)
	listeners := g.listeners
	g.listeners = nil
	group.Go(func() error { return ligato.Run(ctx) })
	group.Go(func() error { states.Run(ctx); return nil })
	group.Go(func() error { return g.server.Serve(listeners...) })
	if g.directory != nil {
		group.Go(func() error { g.directory.Run(ctx, loop); return nil })
	}
}

// Close saves the accepted configuration. The event loop must have ended.
func (g *external) Close() error {
	for _, l := range g.listeners {
		l.Close()
	}
	return errors.Join(g.source.Close(), g.file.Close())
}
