package northbound

import (
	"fmt"
	"strings"

	"github.com/contiv/contiv/api/ligato/generic"
	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// typeURLPrefix precedes message names in the items of ligato's clients.
const typeURLPrefix = "models.ligato.io/"

var modelByName = func() map[string]*models.Model {
	index := make(map[string]*models.Model)
	for _, m := range models.All() {
		index[m.Name()] = m
	}
	return index
}()

func itemOf(key string, value proto.Message) (*generic.Item, error) {
	id, ok := idOf(key)
	if !ok {
		return nil, fmt.Errorf("key %q matches no model", key)
	}
	data, err := proto.Marshal(value)
	if err != nil {
		return nil, err
	}
	return &generic.Item{Id: id, Data: &generic.Data{Union: &generic.Data_Any{Any: &anypb.Any{
		TypeUrl: typeURLPrefix + string(proto.MessageName(value)),
		Value:   data,
	}}}}, nil
}

func idOf(key string) (*generic.Item_ID, bool) {
	m, ok := models.ForKey(key)
	if !ok {
		return nil, false
	}
	return &generic.Item_ID{Model: m.Name(), Name: strings.TrimPrefix(key, m.KeyPrefix())}, true
}

// keyOf returns the key for an item ID.
func keyOf(id *generic.Item_ID) (string, error) {
	m, ok := modelByName[id.GetModel()]
	if !ok {
		return "", fmt.Errorf("unknown model %q: \"agentctl model ls\" lists the models", id.GetModel())
	}
	key := m.KeyOfName(id.GetName())
	if !m.Matches(key) {
		return "", fmt.Errorf("value of model %q without name", id.GetModel())
	}
	return key, nil
}

// valueOf returns key and value of an item. Without data, the value is nil.
func valueOf(item *generic.Item) (key string, value proto.Message, err error) {
	if item.GetData() == nil {
		key, err = keyOf(item.GetId())
		return key, nil, err
	}
	data := item.GetData().GetAny()
	if data == nil {
		return "", nil, fmt.Errorf("item %q has data of an unknown form", item.GetId().GetName())
	}
	value, err = data.UnmarshalNew()
	if err != nil {
		return "", nil, fmt.Errorf("item %q: %w", item.GetId().GetName(), err)
	}
	m, ok := models.ForMessage(value)
	if !ok {
		return "", nil, fmt.Errorf("%s is not a model", proto.MessageName(value))
	}
	return m.Key(value), value, nil
}

func itemStatus(st *pb.ValueStatus) *generic.ItemStatus {
	message := strings.Join(st.GetDetails(), ", ")
	if message == "" {
		message = st.GetError()
	}
	return &generic.ItemStatus{Status: st.GetState().String(), Message: message}
}

// selected is a set of requested keys; nil selects all.
type selected map[string]bool

// selectIDs returns the keys of the IDs. IDs of unknown models select nothing.
func selectIDs(ids []*generic.Item_ID) selected {
	if len(ids) == 0 {
		return nil
	}
	keys := make(selected)
	for _, id := range ids {
		if key, err := keyOf(id); err == nil {
			keys[key] = true
		}
	}
	return keys
}

func (s selected) has(key string) bool { return s == nil || s[key] }

// hasLabels reports whether a value has all wanted labels, and none with a name prefixed by "!". An
// empty text matches any.
func hasLabels(want, have map[string]string) bool {
	for name, text := range want {
		name, unwanted := strings.CutPrefix(name, "!")
		value, ok := have[name]
		if matches := ok && (text == "" || text == value); matches == unwanted {
			return false
		}
	}
	return true
}
