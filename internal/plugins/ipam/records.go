package ipam

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/plugins/podmanager"
)

// StorePrefix is the prefix of allocations in the local store. A key ends with the pod's namespace
// and name. The value is the JSON of a record.
const StorePrefix = "/local/ipam/pods/"

// lastKey holds the newest record if it was removed, so that allocation continues after it.
const lastKey = "/local/ipam/last"

type record struct {
	id podmanager.PodID
	// UID of the pod, or "" if unknown.
	UID string     `json:"uid,omitempty"`
	IP  netip.Addr `json:"ip"`
	// Second is the address of the second IP version in a dual-stack cluster.
	Second netip.Addr `json:"second,omitzero"`
	Custom []customIP `json:"custom,omitempty"`
	// Seq grows with each allocation. Allocation continues after the highest.
	Seq uint64 `json:"seq"`
}

type records struct {
	db  store.Broker
	seq uint64
}

func storeKey(id podmanager.PodID) string { return StorePrefix + id.Namespace + "/" + id.Name }

func (r *records) load(ctx context.Context, log *slog.Logger) ([]record, error) {
	kvs, _, err := r.db.List(ctx, StorePrefix)
	if err != nil {
		return nil, fmt.Errorf("read the addresses of pods from the local store: %w", err)
	}
	var list []record
	for _, kv := range kvs {
		var rec record
		namespace, name, ok := strings.Cut(strings.TrimPrefix(kv.Key, StorePrefix), "/")
		if err := json.Unmarshal(kv.Value, &rec); err != nil || !ok {
			log.Error("Removed an invalid record of a pod's address", "key", kv.Key, "error", err)
			if err := r.db.Delete(ctx, kv.Key); err != nil {
				log.Error("Removing an invalid record failed", "key", kv.Key, "error", err)
			}
			continue
		}
		rec.id = podmanager.PodID{Namespace: namespace, Name: name}
		list = append(list, rec)
		r.seq = max(r.seq, rec.Seq)
	}
	slices.SortFunc(list, func(a, b record) int { return cmp.Compare(a.Seq, b.Seq) })
	return list, nil
}

// last returns the newest addresses if their record was removed. Call it after load.
func (r *records) last(ctx context.Context) ([]netip.Addr, error) {
	kv, found, err := r.db.Get(ctx, lastKey)
	if err != nil {
		return nil, fmt.Errorf("read which addresses of pods were given last from the local store: %w", err)
	}
	var rec record
	if !found || json.Unmarshal(kv.Value, &rec) != nil || rec.Seq < r.seq {
		return nil, nil
	}
	r.seq = rec.Seq
	return []netip.Addr{rec.IP, rec.Second}, nil
}

func (r *records) keepLast(ctx context.Context, addrs []netip.Addr, log *slog.Logger) {
	if err := r.put(ctx, lastKey, "", addrs, nil); err != nil {
		log.Warn("Storing the last allocated addresses failed", "ips", addrs, "error", err)
	}
}

func (r *records) save(ctx context.Context, id podmanager.PodID, uid string, addrs []netip.Addr, custom []customIP) error {
	r.seq++
	return r.put(ctx, storeKey(id), uid, addrs, custom)
}

func (r *records) put(ctx context.Context, key, uid string, addrs []netip.Addr, custom []customIP) error {
	rec := record{UID: uid, Custom: custom, Seq: r.seq}
	if len(addrs) > 0 {
		rec.IP = addrs[0]
	}
	if len(addrs) > 1 {
		rec.Second = addrs[1]
	}
	data, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	if err := r.db.Put(ctx, key, data); err != nil {
		return fmt.Errorf("persist the addresses %v in the local store: %w", addrs, err)
	}
	return nil
}

// remove deletes a record. After a failure, the next restart removes it, because the address then
// has no holder.
func (r *records) remove(ctx context.Context, id podmanager.PodID, log *slog.Logger) {
	if err := r.db.Delete(ctx, storeKey(id)); err != nil {
		log.Error("Removing the record of a released address failed", "pod", id, "error", err)
	}
}
