package ksr

import (
	"context"
	"fmt"
	"strings"

	"github.com/contiv/contiv/api/contiv/vppnode"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/encoding/protojson"
)

const allocatedIDs = models.KSRPrefix + kubestate.VppNodePrefix

// removeNode removes a deleted node's configuration and status. It returns the keys of its node
// IDs, which may be reused once they are removed.
func (w *writer) removeNode(ctx context.Context, name string) (ids []string, err error) {
	ctx, cancel := w.call(ctx)
	defer cancel()
	prefix := models.NodePrefix(name)
	if name != "" && !strings.Contains(name, "/") && prefix != models.KSRPrefix { // otherwise the prefix could contain other owners' data, even ours
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
		w.log.Info("node left, ID released", "node", name, "id", claim.GetId())
		ids = append(ids, kv.Key)
	}
	return ids, nil
}
