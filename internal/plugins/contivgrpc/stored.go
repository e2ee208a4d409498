package contivgrpc

import (
	"fmt"

	"github.com/contiv/contiv/api/ligato/generic"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// encodeStored returns the stored form of a value, a ligato.generic.UpdateItem. The binary encoding
// keeps unknown fields.
func encodeStored(item Item) ([]byte, error) {
	data, err := anypb.New(item.Value)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(&generic.UpdateItem{
		Item:   &generic.Item{Data: &generic.Data{Union: &generic.Data_Any{Any: data}}},
		Labels: item.Labels,
	})
}

func decodeStored(kv store.KV) (client, key string, item Item, err error) {
	client, key, ok := splitStoreKey(kv.Key)
	if !ok {
		return "", "", Item{}, fmt.Errorf("%q is not the key of a client's value", kv.Key)
	}
	model, ok := models.ForKey(key)
	if !ok {
		return "", "", Item{}, fmt.Errorf("key %q of client %q matches no model", key, client)
	}
	var stored generic.UpdateItem
	if err := proto.Unmarshal(kv.Value, &stored); err != nil {
		return "", "", Item{}, fmt.Errorf("value of key %q of client %q: %w", key, client, err)
	}
	item = Item{Value: model.New(), Labels: stored.GetLabels()}
	if err := stored.GetItem().GetData().GetAny().UnmarshalTo(item.Value); err != nil {
		return "", "", Item{}, fmt.Errorf("value of key %q of client %q: %w", key, client, err)
	}
	if is := model.Key(item.Value); is != key {
		return "", "", Item{}, fmt.Errorf("value of key %q of client %q belongs to %q", key, client, is)
	}
	return client, key, item, nil
}
