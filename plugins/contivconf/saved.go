package contivconf

import (
	"context"
	"log/slog"

	"github.com/contiv/contiv/api/contiv/nodeconfig"
	"github.com/contiv/contiv/dbresources"
	"github.com/contiv/contiv/store"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// StoreKey is the key, in the local store, of the last NodeConfig that was in force;
// the value is its JSON. It is for an agent that is restarted while the NodeConfig in
// etcd has a mistake.
const StoreKey = "/local/contivconf/nodeconfig"

// saved keeps the last NodeConfig that was in force. Used by the event loop only.
type saved struct {
	db store.Broker // nil: it is not kept
	// stored is what the store holds, if known.
	stored *nodeconfig.NodeConfig
	known  bool
}

// load returns nil if there is none.
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
		log.Warn("The NodeConfig that was last in force cannot be read from the local store", "error", err)
		return nil
	}
	return msg
}

// put keeps the NodeConfig; nil: none is in force. The node works without it, too.
func (s *saved) put(ctx context.Context, msg *nodeconfig.NodeConfig, log *slog.Logger) {
	if s.db == nil || s.known && proto.Equal(s.stored, msg) {
		return
	}
	var err error
	if msg == nil {
		err = s.db.Delete(ctx, StoreKey)
	} else {
		var data []byte
		if data, err = dbresources.Marshal(msg); err == nil {
			err = s.db.Put(ctx, StoreKey, data)
		}
	}
	if err != nil {
		log.Warn("The NodeConfig in force cannot be kept in the local store: after a restart, a mistake in etcd would make contiv.conf count", "error", err)
		return
	}
	s.stored, s.known = msg, true
}
