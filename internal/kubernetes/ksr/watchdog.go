package ksr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/models"
)

// GaugesKey holds KSR's statistics in the store, as a GaugesValue in JSON. It is written after the
// source's initial objects.
const GaugesKey = models.KSRPrefix + kubestate.ReflectedKey

// GaugesValue is the value of GaugesKey.
type GaugesValue struct {
	NamespaceStats Stats `json:"namespaceStats"`
	NodeStats      Stats `json:"nodeStats"`
	PodStats       Stats `json:"podStats"`
	PolicyStats    Stats `json:"policyStats"`
	ServiceStats   Stats `json:"serviceStats"`
	EndpointsStats Stats `json:"endpointsStats"` // of endpoint slices
}

// errDataLost is wrapped if the store was replaced or restored to an earlier state.
var errDataLost = errors.New("store lost data")

// watchdog detects that the store lost data without an outage: GaugesKey is missing, or revisions
// decreased.
type watchdog struct {
	written  bool
	last     GaugesValue
	key, all int64 // highest revisions seen, of the key and of the store
}

func (d *watchdog) reset() { *d = watchdog{} }

func (d *watchdog) check(kv store.KV, found bool, revision int64) error {
	switch {
	case d.written && !found:
		return fmt.Errorf("%w: key %s is gone", errDataLost, GaugesKey)
	case revision < d.all:
		return fmt.Errorf("%w: its revision went from %d to %d", errDataLost, d.all, revision)
	case found && kv.Revision < d.key:
		return fmt.Errorf("%w: revision of %s went from %d to %d", errDataLost, GaugesKey, d.key, kv.Revision)
	}
	d.all = revision
	if found {
		d.key = kv.Revision
	}
	return nil
}

func (w *writer) checkStore(ctx context.Context) error {
	ctx, cancel := w.call(ctx)
	defer cancel()
	kvs, revision, err := w.store.List(ctx, GaugesKey)
	if err != nil {
		return fmt.Errorf("check the store: %w", err)
	}
	var kv store.KV
	found := len(kvs) > 0 && kvs[0].Key == GaugesKey
	if found {
		kv = kvs[0]
	}
	if err := w.watchdog.check(kv, found, revision); err != nil {
		return err
	}
	if err := w.publishStatus(ctx); err != nil || !w.complete {
		return err
	}
	return w.publishStats(ctx)
}

func (w *writer) publishStats(ctx context.Context) error {
	stats := w.Stats()
	gauges := GaugesValue{
		NamespaceStats: stats[Namespace], NodeStats: stats[Node], PodStats: stats[Pod],
		PolicyStats: stats[Policy], ServiceStats: stats[Service], EndpointsStats: stats[EndpointSlice],
	}
	if w.watchdog.written && gauges == w.watchdog.last {
		return nil
	}
	data, err := json.Marshal(gauges)
	if err != nil {
		return err
	}
	if err := w.store.Put(ctx, GaugesKey, data); err != nil {
		return fmt.Errorf("publish statistics: %w", err)
	}
	w.watchdog.written, w.watchdog.last = true, gauges
	return nil
}
