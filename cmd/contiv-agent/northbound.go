package main

import (
	"context"
	"log/slog"

	"github.com/contiv/contiv/internal/agent/northbound"
	"github.com/contiv/contiv/internal/plugins/contivgrpc"
)

// northboundServer serves gRPC clients until it is stopped, and watches --config-dir.
func northboundServer(config *clientConfig, events *eventLoop, southbound *southboundComponent, states *interfaceStates, log *slog.Logger) component {
	clients := contivgrpc.NewService(config.grpc, events.loop, southbound.Scheduler, log)
	ligato := northbound.NewLigato(northbound.Options{
		Clients: clients, Items: config.grpc.Items, External: events.loop.ExternalValues,
		Scheduler: southbound.Scheduler, States: southbound.VSwitch().States().List, Log: log,
	})
	states.keeper.Observe(ligato.InterfaceChanged)
	stopped := make(chan struct{}) // ends the watches of clients
	clients.Register(config.server)
	ligato.Register(config.server)
	northbound.NewStatusService(southbound.Scheduler, stopped).Register(config.server)
	c := component{
		name: "gRPC server",
		tasks: []task{ligato.Run, func(context.Context) error {
			listeners := config.listeners
			config.listeners = nil
			return config.server.Serve(listeners...)
		}},
		stop: func(ctx context.Context) error {
			close(stopped)
			config.server.Stop(ctx)
			return nil
		},
	}
	if config.directory != nil {
		c.tasks = append(c.tasks, untilEnd(func(ctx context.Context) { config.directory.Run(ctx, events.loop) }))
	}
	return c
}
