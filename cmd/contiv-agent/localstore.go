package main

import (
	"context"
	"log/slog"

	"github.com/contiv/contiv/internal/agent/localstore"
	"github.com/contiv/contiv/internal/etcd/store"
)

// localStore is the file with the mirror of etcd and with this node's pods and addresses.
type localStore struct {
	component
	store store.Broker
}

func openLocalStore(ctx context.Context, o options, log *slog.Logger) (*localStore, error) {
	s, err := localstore.Open(ctx, o.bolt, o.runDir, log)
	if err != nil {
		return nil, err
	}
	return &localStore{component{name: "local store", close: func() { s.Close() }}, s}, nil
}

// broker returns the key-value pairs of the file; nil without a file.
func (s *localStore) broker() store.Broker {
	if s == nil {
		return nil
	}
	return s.store
}

// openMirror opens the same file for an agent without pods.
func openMirror(o options, log *slog.Logger) (*localStore, error) {
	s, err := localstore.OpenFile(o.bolt, log)
	if err != nil {
		return nil, err
	}
	return &localStore{component{name: "mirror", close: func() { s.Close() }}, s}, nil
}
