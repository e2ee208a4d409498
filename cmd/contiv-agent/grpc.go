package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"

	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/northbound"
	"github.com/contiv/contiv/plugins/contivgrpc"
	"github.com/contiv/contiv/store/bolt"
	"github.com/prometheus/client_golang/prometheus"
)

// grpcConfig is configuration that clients give over gRPC, and their access to it.
type grpcConfig struct {
	file   *bolt.Store
	source *contivgrpc.Source
	server *northbound.Server
	// listeners are those of the server, which closes them.
	listeners []net.Listener
}

// openGRPC reads what clients have given, and opens the addresses.
func openGRPC(ctx context.Context, o options, metrics prometheus.Registerer, log *slog.Logger) (*grpcConfig, error) {
	file, err := openFile(o.grpcBolt, log)
	if err != nil {
		return nil, err
	}
	g := &grpcConfig{file: file, server: northbound.NewServer(metrics, log)}
	if g.source, err = contivgrpc.NewSource(ctx, file, log); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	for _, address := range append([]string{"unix://" + filepath.Join(o.runDir, "grpc.sock")}, o.grpc...) {
		l, err := o.listener.Listen(address)
		if err != nil {
			g.Close()
			return nil, fmt.Errorf("cannot serve gRPC on %s: %w", address, err)
		}
		g.listeners = append(g.listeners, l)
	}
	return g, nil
}

// serve serves clients until stop.
func (g *grpcConfig) serve(loop *controller.Controller, scheduler *kvscheduler.Scheduler, log *slog.Logger) error {
	service := contivgrpc.NewService(g.source, loop, scheduler, log)
	service.Register(g.server)
	listeners := g.listeners
	g.listeners = nil
	return g.server.Serve(listeners...)
}

// Close saves what was accepted. The event loop must have ended.
func (g *grpcConfig) Close() error {
	for _, l := range g.listeners {
		l.Close()
	}
	return errors.Join(g.source.Close(), g.file.Close())
}
