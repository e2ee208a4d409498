package main

import (
	"context"
	"log/slog"

	"github.com/contiv/contiv/internal/kubernetes/apiserver"
)

// apiServer knows the addresses at which components of the cluster reach the API server.
type apiServer struct {
	component
	*apiserver.Addresses
}

func newAPIServer(addresses []string, log *slog.Logger) (*apiServer, error) {
	parsed, err := apiserver.Parse(addresses)
	if err != nil {
		return nil, err
	}
	return &apiServer{component{
		name:  "addresses of the API server",
		tasks: []task{untilEnd(func(ctx context.Context) { parsed.Run(ctx, log) })},
	}, parsed}, nil
}
