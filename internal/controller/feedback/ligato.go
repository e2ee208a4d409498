package feedback

import (
	"context"
	"strings"

	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/encoding/protojson"
)

const configPrefix = "config/"

// ligatoKey returns the key of the status in the vpp-agent's format. ok is false for answers to
// requests.
func (p *Publisher) ligatoKey(key string) (string, bool) {
	name, ok := strings.CutPrefix(key, configPrefix)
	return models.NodePrefix(p.Node) + models.LigatoStatusPrefix + name, ok
}

// twin returns the change of the status in the vpp-agent's format that accompanies a change of a
// status. The caller holds mu.
func (p *Publisher) twin(key string, change store.Change) (store.Change, bool) {
	ligatoKey, ok := p.ligatoKey(key)
	if !ok || !p.Config.LigatoStatus {
		return store.Change{}, false
	}
	twin := store.Change{KV: store.KV{Key: ligatoKey}, Deleted: change.Deleted}
	if !change.Deleted {
		data, err := protojson.Marshal(p.entries[key].status(key, p.Scheduler).GetValue())
		if err != nil {
			p.Log.Error("Encoding a status failed", "key", key, "error", err)
			return store.Change{}, false
		}
		twin.Value = data
	}
	return twin, true
}

// sweepTwins queues statuses without a twin, and deletes twins without a status; without
// LigatoStatus, all twins.
func (p *Publisher) sweepTwins(ctx context.Context) error {
	kvs, _, err := p.Store.List(ctx, models.NodePrefix(p.Node)+models.LigatoStatusPrefix)
	if err != nil {
		return err
	}
	p.mu.Lock()
	have := make(map[string]bool, len(kvs))
	var orphans []store.Change
	for _, kv := range kvs {
		have[kv.Key] = true
		key := configPrefix + strings.TrimPrefix(kv.Key, models.NodePrefix(p.Node)+models.LigatoStatusPrefix)
		if e := p.entries[key]; !p.Config.LigatoStatus || e == nil {
			orphans = append(orphans, store.Change{KV: store.KV{Key: kv.Key}, Deleted: true})
		}
	}
	if p.Config.LigatoStatus {
		for key, e := range p.entries {
			if twin, ok := p.ligatoKey(key); ok && !have[twin] && !e.gone() {
				e.stored = 0
			}
		}
	}
	p.mu.Unlock()
	for len(orphans) > 0 {
		batch := orphans[:min(len(orphans), maxBatch)]
		if err := store.Apply(ctx, p.Store, batch); err != nil {
			return err
		}
		orphans = orphans[len(batch):]
	}
	return nil
}
