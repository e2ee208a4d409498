package northbound

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/contiv/contiv/api/ligato/generic"
	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/lib/parallel"
	"github.com/contiv/contiv/internal/plugins/contivgrpc"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

type manager struct {
	generic.UnsafeManagerServiceServer
	*Ligato
}

// SetConfig puts items with data and deletes items without.
func (m *manager) SetConfig(ctx context.Context, r *generic.SetConfigRequest) (*generic.SetConfigResponse, error) {
	change, err := newChange(ctx)
	if err != nil {
		return nil, err
	}
	change.Replace, change.Full = r.GetOverwriteAll(), r.GetOverwriteAll()
	change.Labels = make(map[string]map[string]string)
	keys := make([]string, 0, len(r.GetUpdates()))
	for i, update := range r.GetUpdates() {
		key, value, err := valueOf(update.GetItem())
		if err != nil {
			return nil, refused("updates[%d]: %v", i, err)
		}
		if _, twice := change.Values[key]; twice {
			return nil, refused("updates[%d]: key %q occurs twice in the request: remove one", i, key)
		}
		change.Values[key] = value
		if labels := update.GetLabels(); len(labels) > 0 {
			change.Labels[key] = labels
		}
		keys = append(keys, key)
	}
	wanted := m.Items()[change.Client]
	outcome, err := m.Clients.Apply(ctx, change)
	if err != nil {
		return nil, err
	}
	response := &generic.SetConfigResponse{}
	if txn := outcome.Txn(); txn != nil {
		response.Results = append(response.Results, sequenceNumber(txn.SeqNum))
	}
	for _, key := range keys {
		result := m.result(key, change.Values[key] == nil)
		if _, known := wanted[key]; !known && change.Values[key] == nil {
			result.Status.Message = fmt.Sprintf("nothing was deleted: client %q has no value with this key", change.Client)
		}
		response.Results = append(response.Results, result)
	}
	return response, nil
}

// sequenceNumber returns the first result of a change, by which ligato's services report the number
// of the transaction.
func sequenceNumber(txn uint64) *generic.UpdateResult {
	return &generic.UpdateResult{Key: "seqnum", Status: &generic.ItemStatus{
		Status: pb.ValueState_NONEXISTENT.String(), Message: strconv.FormatUint(txn, 10),
	}}
}

func (m *manager) result(key string, removed bool) *generic.UpdateResult {
	st := m.Scheduler.ValueStatus(key).GetValue()
	id, _ := idOf(key)
	result := &generic.UpdateResult{Id: id, Key: key, Status: itemStatus(st)}
	switch {
	case removed:
		result.Op = generic.UpdateResult_DELETE
	case st.GetLastOperation() == pb.TxnOperation_CREATE:
		result.Op = generic.UpdateResult_CREATE
	case st.GetLastOperation() == pb.TxnOperation_UPDATE:
		result.Op = generic.UpdateResult_UPDATE
	}
	return result
}

// keyOrPrefix returns the key of the named value, or the prefix of all values if name is empty.
func keyOrPrefix(m *models.Model, name string) string {
	if name == "" {
		return m.KeyPrefix()
	}
	return m.KeyOfName(name)
}

// GetConfig returns the merged values of all external sources. For a client that identifies itself
// like Contiv's clients, it returns that client's values.
func (m *manager) GetConfig(ctx context.Context, r *generic.GetConfigRequest) (*generic.GetConfigResponse, error) {
	if len(r.GetIds()) > 0 && len(r.GetLabels()) > 0 {
		return nil, refused("select either by ids or by labels")
	}
	keys := selectIDs(r.GetIds())
	values, labels := m.wanted(ctx), m.labels()
	var selected []string
	for key := range values {
		if keys.has(key) && hasLabels(r.GetLabels(), labels[key]) {
			selected = append(selected, key)
		}
	}
	slices.Sort(selected)
	items := make([]*generic.ConfigItem, len(selected))
	errs := parallel.Collect(len(selected), func(begin, end int) error {
		for i, key := range selected[begin:end] {
			item, err := itemOf(key, values[key])
			if err != nil {
				return status.Error(codes.Internal, err.Error())
			}
			items[begin+i] = &generic.ConfigItem{Item: item, Status: itemStatus(m.Scheduler.ValueStatus(key).GetValue()), Labels: labels[key]}
		}
		return nil
	})
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	return &generic.GetConfigResponse{Items: items}, nil
}

// wanted returns the values that GetConfig selects from.
func (m *manager) wanted(ctx context.Context) controller.ExternalConfig {
	client := metadata.ValueFromIncomingContext(ctx, contivgrpc.ClientMetadata)
	if len(client) == 0 {
		return m.External()
	}
	values := make(controller.ExternalConfig)
	for key, item := range m.Items()[client[0]] {
		values[key] = item.Value
	}
	return values
}

// labels returns the labels of all clients by key.
func (m *manager) labels() map[string]map[string]string {
	all := make(map[string]map[string]string)
	for _, items := range m.Items() {
		for key, item := range items {
			if len(item.Labels) == 0 {
				continue
			}
			if all[key] == nil {
				all[key] = make(map[string]string)
			}
			maps.Copy(all[key], item.Labels)
		}
	}
	return all
}

// DumpState returns the scheduler's cached view, including Contiv's own values.
func (m *manager) DumpState(ctx context.Context, r *generic.DumpStateRequest) (*generic.DumpStateResponse, error) {
	keys := selectIDs(r.GetIds())
	values, err := m.Scheduler.Dump(ctx, kvscheduler.CachedView, kvscheduler.DumpFilter{})
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	response := &generic.DumpStateResponse{}
	for _, v := range values {
		if _, ok := idOf(v.Key); !ok || !keys.has(v.Key) {
			continue // derived values are not items
		}
		item, err := itemOf(v.Key, v.Value)
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		response.Items = append(response.Items, &generic.StateItem{Item: item, Metadata: map[string]string{
			"key": v.Key, "state": v.State.String(), "origin": v.Origin.String(),
		}})
	}
	return response, nil
}

// Subscribe sends changes of value states, without data, until the client ends the call. A
// subscription without name selects all values of a model. A call without subscriptions selects
// everything.
func (m *manager) Subscribe(r *generic.SubscribeRequest, stream grpc.ServerStreamingServer[generic.SubscribeResponse]) error {
	var wanted selection
	for i, s := range r.GetSubscriptions() {
		model, ok := modelByName[s.GetId().GetModel()]
		if !ok {
			return refused("subscriptions[%d]: unknown model %q", i, s.GetId().GetModel())
		}
		wanted = append(wanted, keyOrPrefix(model, s.GetId().GetName()))
	}
	watcher, _ := m.Scheduler.Watch(valuePrefix)
	if err := stream.SendHeader(nil); err != nil { // no change is missed from here on
		return err
	}
	return follow(stream.Context(), m.ended, watcher, func(events []kvscheduler.StatusEvent) error {
		response := &generic.SubscribeResponse{}
		for _, e := range events {
			key := e.Status.GetValue().GetKey()
			if id, ok := idOf(key); ok && wanted.has(key) {
				response.Notifications = append(response.Notifications, &generic.Notification{
					Item: &generic.Item{Id: id}, Status: itemStatus(e.Status.GetValue()),
				})
			}
		}
		if len(response.Notifications) == 0 {
			return nil
		}
		return stream.Send(response)
	})
}
