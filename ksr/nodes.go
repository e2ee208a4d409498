package ksr

import (
	"context"
	"fmt"
	"strings"

	"github.com/contiv/contiv/api/contiv/vppnode"
	"github.com/contiv/contiv/dbresources"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/encoding/protojson"
)

// allocatedIDs begins the keys under which agents claim node IDs.
const allocatedIDs = models.KSRPrefix + dbresources.VppNodePrefix

// removeNode removes the configuration and the status that the agent of a deleted node left in the store, and returns
// the keys of its node IDs, which others may use when they are removed as well.
func (w *writer) removeNode(ctx context.Context, name string) (ids []string, err error) {
	ctx, cancel := w.call(ctx)
	defer cancel()
	prefix := models.NodePrefix(name)
	if name != "" && !strings.Contains(name, "/") && prefix != models.KSRPrefix { // else the prefix could be that of others' data, even of ours
		if err := w.store.DeletePrefix(ctx, prefix); err != nil {
			return nil, fmt.Errorf("remove the configuration of node %s: %w", name, err)
		}
	}
	claims, _, err := w.store.List(ctx, allocatedIDs)
	if err != nil {
		return nil, fmt.Errorf("find the ID of node %s: %w", name, err)
	}
	for _, kv := range claims {
		var claim vppnode.VppNode
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(kv.Value, &claim); err != nil || claim.GetName() != name {
			continue
		}
		w.log.Info("node left: its ID is free", "node", name, "id", claim.GetId())
		ids = append(ids, kv.Key)
	}
	return ids, nil
}
