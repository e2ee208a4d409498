package central

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/contiv/contiv/internal/calico/agent"
	"github.com/contiv/contiv/internal/calico/datastore"
	"github.com/contiv/contiv/internal/calico/routes"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/kubernetes/ksr"
	"github.com/contiv/contiv/internal/lib/delta"
)

// batch limits the changes per write: etcd refuses more than 128.
const batch = 100

// Centre calculates and writes the routes of all hosts while it is elected.
type Centre struct {
	// Elector decides which of several instances writes.
	Elector ksr.Elector
	// NewSource returns a source for a term of leadership.
	NewSource func() agent.Source
	// Retry is the delay after a failure. Default 1 s.
	Retry time.Duration
	Log   *slog.Logger
	// Writes counts changed keys.
	Writes atomic.Int64
}

// Run takes part in elections until ctx ends.
func (c *Centre) Run(ctx context.Context) {
	for ctx.Err() == nil {
		err := c.Elector.Lead(ctx, func() {}, c.lead)
		if ctx.Err() != nil {
			return
		}
		c.Log.Warn("Election of the centre failed", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(cmp.Or(c.Retry, time.Second)):
		}
	}
}

// lead writes until ctx ends or a write fails. It starts by reading the written routes.
func (c *Centre) lead(ctx context.Context, db store.Broker) error {
	written, err := read(ctx, db)
	if err != nil {
		return err
	}
	c.Log.Info("This instance is the centre")
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.NewSource().Run(ctx, func(s *datastore.State) {
		changes := written.bring(Calculate(s))
		c.Writes.Add(int64(len(changes)))
		for part := range slices.Chunk(changes, batch) {
			if err := store.Apply(ctx, db, part); err != nil {
				cancel(err)
				return
			}
		}
	})
	return context.Cause(ctx)
}

// Calculate returns the routes of all hosts that have an address.
func Calculate(s *datastore.State) map[string]routes.Table {
	owners, _ := routes.FindOwners(s)
	peers := routes.FindPeers(s)
	tables := make(map[string]routes.Table, len(peers))
	for name, addresses := range peers {
		host := routes.Host{Name: name}
		for _, a := range []netip.Addr{addresses.IPv4, addresses.IPv6} {
			if a.IsValid() {
				host.Uplinks = append(host.Uplinks, netip.PrefixFrom(a, a.BitLen()))
			}
		}
		tables[name], _, _ = host.For(owners, peers)
	}
	return tables
}

type subtrees struct {
	tables map[string]routes.Table
	// complete holds the hosts for which this leader has written CompleteKey.
	complete map[string]bool
}

func read(ctx context.Context, db store.Broker) (subtrees, error) {
	kvs, _, err := db.List(ctx, datastore.PeersPrefix)
	if err != nil {
		return subtrees{}, err
	}
	w := subtrees{tables: make(map[string]routes.Table), complete: make(map[string]bool)}
	for _, kv := range kvs {
		host, g, ok := datastore.ParseGiven(kv.Key, kv.Value)
		if !ok {
			continue
		}
		if w.tables[host] == nil {
			w.tables[host] = make(routes.Table)
		}
		w.tables[host][g.Destination] = routes.Route{Via: g.Via, Host: g.Host}
	}
	return w, nil
}

// bring returns the changes from the written to the wanted keys and records them as written. The
// CompleteKey of a host follows its routes.
func (w subtrees) bring(wanted map[string]routes.Table) (changes []store.Change) {
	hosts := slices.Collect(maps.Keys(wanted))
	for host := range w.tables {
		if _, stays := wanted[host]; !stays {
			hosts = append(hosts, host)
		}
	}
	slices.Sort(hosts)
	for _, host := range hosts {
		table, stays := wanted[host]
		mark := store.Change{KV: store.KV{Key: datastore.CompleteKey(host), Value: []byte("true")}}
		if !stays {
			mark.Value, mark.Deleted = nil, true
			changes = append(changes, mark)
		}
		plan := delta.Between(w.tables[host], table, func(a, b routes.Route) bool { return a == b })
		plan.Sort(delta.Order[netip.Prefix]{Keys: netip.Prefix.Compare})
		for _, step := range plan {
			change := store.Change{KV: store.KV{Key: datastore.GivenKey(host, step.Key)}, Deleted: step.Kind == delta.Remove}
			if !change.Deleted {
				change.Value = datastore.Given{Via: step.New.Via, Host: step.New.Host}.Encode()
			}
			changes = append(changes, change)
		}
		if !stays {
			delete(w.tables, host)
			delete(w.complete, host)
			continue
		}
		if w.tables[host] = table; !w.complete[host] {
			w.complete[host] = true
			changes = append(changes, mark)
		}
	}
	return changes
}

// errNoCentre is the reason why a host calculates its own routes.
var errNoCentre = errors.New("no centre, or it has not written this host's routes")
