package contivconf

import (
	"context"
	"log/slog"

	"github.com/contiv/contiv/api/contiv/nodeconfig"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// StoreKey is the local store's key of the last NodeConfig in force, as JSON. A restarted agent
// uses it if the NodeConfig in etcd is invalid.
const StoreKey = "/local/contivconf/nodeconfig"

// saved persists the last NodeConfig in force. Only for the event loop.
type saved struct {
	db     store.Broker // nil: no persistence
	stored *nodeconfig.NodeConfig
	known  bool
}

func (s *saved) load(ctx context.Context, log *slog.Logger) *nodeconfig.NodeConfig {
	if s.db == nil {
		return nil
	}
	kv, ok, err := s.db.Get(ctx, StoreKey)
	if err == nil && !ok {
		return nil
	}
	msg := &nodeconfig.NodeConfig{}
	if err == nil {
		err = (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(kv.Value, msg)
	}
	if err != nil {
		log.Warn("Reading the last NodeConfig from the local store failed", "error", err)
		return nil
	}
	return msg
}

// put stores the NodeConfig, or deletes it if nil. Failures are not fatal.
func (s *saved) put(ctx context.Context, msg *nodeconfig.NodeConfig, log *slog.Logger) {
	if s.db == nil || s.known && proto.Equal(s.stored, msg) {
		return
	}
	var err error
	if msg == nil {
		err = s.db.Delete(ctx, StoreKey)
	} else {
		var data []byte
		if data, err = kubestate.Marshal(msg); err == nil {
			err = s.db.Put(ctx, StoreKey, data)
		}
	}
	if err != nil {
		log.Warn("Saving the NodeConfig to the local store failed", "error", err)
		return
	}
	s.stored, s.known = msg, true
}
