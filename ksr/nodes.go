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

// removeNode removes everything that the agent of a deleted node left in the store: its node ID, which
// others may then use, its configuration and its status.
func (w *writer) removeNode(ctx context.Context, name string) error {
	ctx, cancel := w.call(ctx)
	defer cancel()
	claims, _, err := w.store.List(ctx, allocatedIDs)
	if err != nil {
		return fmt.Errorf("find the ID of node %s: %w", name, err)
	}
	for _, kv := range claims {
		var claim vppnode.VppNode
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(kv.Value, &claim); err != nil || claim.GetName() != name {
			continue
		}
		// Not if another node has just taken the ID.
		freed, err := w.store.CompareAndDelete(ctx, kv.Key, kv.Value)
		if err != nil {
			return fmt.Errorf("free ID %d of node %s: %w", claim.GetId(), name, err)
		}
		if !freed {
			continue
		}
		w.log.Info("node left: its ID is free", "node", name, "id", claim.GetId())
	}
	prefix := models.NodePrefix(name)
	if name == "" || strings.Contains(name, "/") || prefix == models.KSRPrefix {
		return nil // not a node: the prefix could be that of others' data, even of ours
	}
	if err := w.store.DeletePrefix(ctx, prefix); err != nil {
		return fmt.Errorf("remove the configuration of node %s: %w", name, err)
	}
	return nil
}
