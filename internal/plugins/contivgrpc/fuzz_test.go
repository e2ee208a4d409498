package contivgrpc

import (
	"testing"

	"github.com/contiv/contiv/api/contiv/rpc"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

func FuzzRequest(f *testing.F) {
	whole := &rpc.DataRequest{Interfaces: []*vpp_interfaces.Interface{{Name: "a"}}, Delete: &rpc.DataRequest{}, Client: "x"}
	data, err := proto.Marshal(whole)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data, 0)
	f.Add([]byte("\xff\xff garbage"), 1)
	f.Fuzz(func(t *testing.T, data []byte, how int) {
		request := &rpc.DataRequest{}
		if proto.Unmarshal(data, request) != nil {
			return
		}
		c, err := changeOf(t.Context(), request, verb(uint(how)%3))
		if err != nil || c.validate() != nil {
			return
		}
		for key, value := range c.Values {
			if value == nil {
				continue
			}
			if models.Key(value) != key {
				t.Errorf("value of %q belongs to %q", key, models.Key(value))
			}
			saved, err := encodeStored(Item{Value: value})
			if err != nil {
				t.Fatalf("%q cannot be saved: %v", key, err)
			}
			client, again, item, err := decodeStored(store.KV{Key: storeKey(c.Client, key), Value: saved})
			if err != nil || client != c.Client || again != key || !proto.Equal(item.Value, value) {
				t.Errorf("%q is read again as %q of %q, %v: %v", key, again, client, item.Value, err)
			}
		}
	})
}

func FuzzStored(f *testing.F) {
	const key = "config/vpp/v2/interfaces/a"
	data, err := encodeStored(Item{Value: &vpp_interfaces.Interface{Name: "a"}, Labels: map[string]string{"x": "y"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(storeKey("router", key), data)
	f.Add(storeKey("", key), data[:len(data)/2])
	f.Add("client/", []byte("\xff"))
	f.Fuzz(func(t *testing.T, stored string, data []byte) {
		client, key, item, err := decodeStored(store.KV{Key: stored, Value: data})
		if err == nil && (models.Key(item.Value) != key || storeKey(client, key) != stored) {
			t.Errorf("%q is read as %q of %q: %v", stored, key, client, item.Value)
		}
	})
}
