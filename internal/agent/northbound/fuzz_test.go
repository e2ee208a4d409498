package northbound

import (
	"testing"

	"github.com/contiv/contiv/api/ligato/configurator"
	"github.com/contiv/contiv/api/ligato/generic"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// An item is either rejected or its key belongs to its value.
func FuzzItem(f *testing.F) {
	item, err := itemOf("config/vpp/v2/interfaces/a", &vpp_interfaces.Interface{Name: "a"})
	if err != nil {
		f.Fatal(err)
	}
	data, err := proto.Marshal(item)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		item := &generic.Item{}
		if proto.Unmarshal(data, item) != nil {
			return
		}
		key, value, err := valueOf(item)
		if err != nil {
			return
		}
		if value == nil {
			if _, ok := models.ForKey(key); !ok {
				t.Errorf("key %q of %v matches no model", key, item)
			}
		} else if models.Key(value) != key {
			t.Errorf("key %q of %v", key, value)
		}
	})
}

// Splitting and reassembling a configuration preserves it.
func FuzzConfig(f *testing.F) {
	data, err := proto.Marshal(newConfig([]proto.Message{&vpp_interfaces.Interface{Name: "a"}}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		config := &configurator.Config{}
		if proto.Unmarshal(data, config) != nil {
			return
		}
		var values []proto.Message
		if err := eachValue(config, func(_ string, value proto.Message) error { values = append(values, value); return nil }); err != nil {
			t.Fatal(err)
		}
		var again []proto.Message
		_ = eachValue(newConfig(values), func(_ string, value proto.Message) error { again = append(again, value); return nil })
		if len(again) != len(values) {
			t.Errorf("%d values became %d", len(values), len(again))
		}
	})
}
