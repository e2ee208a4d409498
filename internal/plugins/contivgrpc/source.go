package contivgrpc

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store"
	"google.golang.org/protobuf/proto"
)

// Name of the source. Each client is a separate source, "contiv-grpc/<client>".
const Name = "contiv-grpc"

// Item is a value requested by a client. Read-only.
type Item struct {
	Value proto.Message
	// Labels by which the client finds its values again; may be nil.
	Labels map[string]string
}

// Source holds the values requested by each client. It is safe for concurrent use.
type Source struct {
	log    *slog.Logger
	writer *writer

	mu sync.RWMutex
	// client -> NB key -> value; clients without values are omitted.
	clients map[string]map[string]Item
}

var _ controller.ClientsSource = (*Source)(nil)

// NewSource reads the file. It logs undecodable values and keeps them in the file. The caller
// closes the source before the file.
func NewSource(ctx context.Context, file store.Batcher, log *slog.Logger) (*Source, error) {
	log = log.With("plugin", Name)
	kvs, _, err := file.List(ctx, storePrefix)
	if err != nil {
		return nil, fmt.Errorf("read the configuration of gRPC clients: %w", err)
	}
	s := &Source{log: log, clients: make(map[string]map[string]Item)}
	for _, kv := range kvs {
		client, key, item, err := decodeStored(kv)
		if err != nil {
			log.Error("Invalid saved value of a gRPC client ignored", "error", err)
			continue
		}
		s.values(client)[key] = item
	}
	s.writer = newWriter(file, log)
	return s, nil
}

// Close writes the unsaved changes.
func (s *Source) Close() error { return s.writer.close() }

func (s *Source) String() string { return Name }

// GetConfigSnapshot returns nothing: all values belong to clients.
func (s *Source) GetConfigSnapshot() (controller.ExternalConfig, error) { return nil, nil }

// GetClientSnapshots returns the accepted values of each client.
func (s *Source) GetClientSnapshots() (map[string]controller.ExternalConfig, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	snapshots := make(map[string]controller.ExternalConfig, len(s.clients))
	for client, items := range s.clients {
		config := make(controller.ExternalConfig, len(items))
		for key, item := range items {
			config[key] = item.Value
		}
		snapshots[client] = config
	}
	return snapshots, nil
}

// Items returns the accepted values by client and NB key.
func (s *Source) Items() map[string]map[string]Item {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make(map[string]map[string]Item, len(s.clients))
	for client, items := range s.clients {
		all[client] = maps.Clone(items)
	}
	return all
}

// accept applies an accepted change. It must be called in the order of the event loop. The returned
// channel reports whether the change was saved.
func (s *Source) accept(c Change) <-chan error {
	s.mu.Lock()
	defer s.mu.Unlock()
	items := s.values(c.Client)
	changes := make(map[string]*Item, len(c.Values))
	if c.Replace {
		for key := range items {
			changes[key] = nil
		}
		clear(items)
	}
	for key, value := range c.Values {
		if value == nil {
			delete(items, key)
			changes[key] = nil
			continue
		}
		item := Item{Value: value, Labels: c.Labels[key]}
		items[key] = item
		changes[key] = &item
	}
	if len(items) == 0 {
		delete(s.clients, c.Client)
	}
	return s.writer.write(c.Client, changes)
}

func (s *Source) values(client string) map[string]Item {
	items := s.clients[client]
	if items == nil {
		items = make(map[string]Item)
		s.clients[client] = items
	}
	return items
}

const storePrefix = "client/"

func storeKey(client, key string) string { return storePrefix + client + "/" + key }

func splitStoreKey(stored string) (client, key string, ok bool) {
	return strings.Cut(strings.TrimPrefix(stored, storePrefix), "/")
}
