package main

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"

	"github.com/contiv/contiv/internal/lib/logline/loglevel"
	"github.com/contiv/contiv/internal/lib/rest"
)

// openREST opens the server of the REST API of all components.
func openREST(o options, api http.Handler, log *slog.Logger) (component, error) {
	server, err := rest.Listen(o.listener, log, append([]string{"unix://" + filepath.Join(o.runDir, "agent.sock")}, o.http...)...)
	if err != nil {
		return component{}, err
	}
	return component{
		name:  "REST server",
		rest:  map[string]http.Handler{"/log/": loglevel.Handler(log)},
		tasks: []task{func(ctx context.Context) error { return server.Serve(ctx, api) }},
	}, nil
}
