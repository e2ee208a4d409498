package northbound_test

import (
	"context"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/rpc"
	"github.com/contiv/contiv/api/ligato/generic"
	"github.com/contiv/contiv/internal/agent/northbound"
	"github.com/contiv/contiv/internal/plugins/contivgrpc"
	"github.com/contiv/contiv/models"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// item returns a value as ligato's clients send it.
func item(value proto.Message) *generic.Item {
	m, _ := models.ForMessage(value)
	data, err := proto.Marshal(value)
	if err != nil {
		panic(err)
	}
	return &generic.Item{
		Id:   &generic.Item_ID{Model: m.Name(), Name: strings.TrimPrefix(models.Key(value), m.KeyPrefix())},
		Data: &generic.Data{Union: &generic.Data_Any{Any: &anypb.Any{TypeUrl: "models.ligato.io/" + m.ProtoName(), Value: data}}},
	}
}

func removal(value proto.Message) *generic.Item { return &generic.Item{Id: item(value).Id} }

func setting(items ...*generic.Item) *generic.SetConfigRequest {
	r := &generic.SetConfigRequest{}
	for _, i := range items {
		r.Updates = append(r.Updates, &generic.UpdateItem{Item: i})
	}
	return r
}

// requested returns keys and states of the requested values.
func (r *rig) requested(request *generic.GetConfigRequest) map[string]string {
	r.t.Helper()
	response, err := r.manager.GetConfig(r.t.Context(), request)
	r.ok(err)
	got := make(map[string]string)
	for _, i := range response.GetItems() {
		value, err := i.GetItem().GetData().GetAny().UnmarshalNew()
		r.ok(err)
		got[models.Key(value)] = i.GetStatus().GetStatus()
		if diff := cmp.Diff(item(value).GetId().String(), i.GetItem().GetId().String()); diff != "" {
			r.t.Errorf("ID of %s (-want +got):\n%s", models.Key(value), diff)
		}
	}
	return got
}

func want(t *testing.T, want, got map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

var etcdKey = models.Key(tap("of-etcd"))

func TestSetConfig(t *testing.T) {
	r := newRig(t)
	response, err := r.manager.SetConfig(t.Context(), setting(item(tap("a")), item(route("b"))))
	r.ok(err)
	got := make(map[string]string)
	for _, result := range response.GetResults()[1:] {
		got[result.GetKey()] = result.GetOp().String() + " " + result.GetStatus().GetStatus() + " " + result.GetStatus().GetMessage()
	}
	want(t, map[string]string{models.Key(tap("a")): "CREATE CONFIGURED ", models.Key(route("b")): "UNSPECIFIED PENDING interface"}, got)
	want(t, map[string]string{models.Key(tap("a")): "CONFIGURED", models.Key(route("b")): "PENDING", etcdKey: "CONFIGURED"}, r.requested(&generic.GetConfigRequest{}))

	_, err = r.manager.SetConfig(t.Context(), setting(item(tap("b")), removal(tap("a"))))
	r.ok(err)
	want(t, map[string]string{models.Key(tap("b")): "CONFIGURED", models.Key(route("b")): "CONFIGURED", etcdKey: "CONFIGURED"}, r.requested(&generic.GetConfigRequest{}))

	all := setting(item(tap("c")))
	all.OverwriteAll = true
	_, err = r.manager.SetConfig(t.Context(), all)
	r.ok(err)
	want(t, map[string]string{models.Key(tap("c")): "CONFIGURED", etcdKey: "CONFIGURED"}, r.requested(&generic.GetConfigRequest{}))
}

func TestFailedSetConfig(t *testing.T) {
	r := newRig(t)
	_, err := r.manager.SetConfig(t.Context(), setting(item(tap("good")), item(tap("bad"))))
	st := status.Convert(err)
	if st.Code() != codes.FailedPrecondition || len(st.Details()) != 1 || st.Details()[0].(*rpc.TransactionError).GetItems()[0].GetCause() != "no such device" {
		t.Errorf("status %v, details %v", st, st.Details())
	}
	want(t, map[string]string{models.Key(tap("good")): "CONFIGURED", models.Key(tap("bad")): "FAILED", etcdKey: "CONFIGURED"}, r.requested(&generic.GetConfigRequest{}))

	ctx := metadata.AppendToOutgoingContext(t.Context(), contivgrpc.RevertMetadata, "true")
	_, err = r.manager.SetConfig(ctx, setting(item(tap("better")), item(tap("bad2"))))
	if code := status.Code(err); code != codes.FailedPrecondition {
		t.Errorf("with revert: %v", err)
	}
	if got := r.requested(&generic.GetConfigRequest{Ids: []*generic.Item_ID{item(tap("better")).Id}}); len(got) > 0 {
		t.Errorf("reverted, and yet requested: %v", got)
	}
}

func TestDataSourcesAreKeptApart(t *testing.T) {
	r := newRig(t)
	other := metadata.AppendToOutgoingContext(t.Context(), northbound.SourceMetadata, "other")
	for ctx, name := range map[context.Context]string{t.Context(): "a", other: "b"} {
		_, err := r.manager.SetConfig(ctx, setting(item(tap(name))))
		r.ok(err)
	}
	_, err := r.manager.SetConfig(other, &generic.SetConfigRequest{OverwriteAll: true})
	r.ok(err)
	want(t, map[string]string{models.Key(tap("a")): "CONFIGURED", etcdKey: "CONFIGURED"}, r.requested(&generic.GetConfigRequest{}))
}

func TestGetConfigSelects(t *testing.T) {
	r := newRig(t)
	request := setting(item(tap("a")), item(tap("b")), item(tap("c")))
	request.Updates[0].Labels = map[string]string{"app": "x", "tier": "1"}
	request.Updates[1].Labels = map[string]string{"app": "y"}
	_, err := r.manager.SetConfig(t.Context(), request)
	r.ok(err)
	for _, test := range []struct {
		labels map[string]string
		want   string
	}{
		{map[string]string{"app": "x"}, "a"},
		{map[string]string{"app": ""}, "a b"},
		{map[string]string{"!app": ""}, "c of-etcd"},
		{map[string]string{"app": "", "!tier": ""}, "b"},
		{map[string]string{"!app": "x"}, "b c of-etcd"},
	} {
		wanted := make(map[string]string)
		for _, name := range strings.Fields(test.want) {
			wanted[models.Key(tap(name))] = "CONFIGURED"
		}
		want(t, wanted, r.requested(&generic.GetConfigRequest{Labels: test.labels}))
	}
	want(t, map[string]string{models.Key(tap("b")): "CONFIGURED"}, r.requested(&generic.GetConfigRequest{Ids: []*generic.Item_ID{item(tap("b")).Id}}))
}

func TestDumpState(t *testing.T) {
	r := newRig(t)
	_, err := r.manager.SetConfig(t.Context(), setting(item(tap("a")), item(route("missing"))))
	r.ok(err)
	response, err := r.manager.DumpState(t.Context(), &generic.DumpStateRequest{})
	r.ok(err)
	got := make(map[string]string)
	for _, i := range response.GetItems() {
		got[i.GetMetadata()["key"]] = i.GetMetadata()["state"] + " " + i.GetMetadata()["origin"]
	}
	want(t, map[string]string{models.Key(tap("a")): "CONFIGURED NB", etcdKey: "CONFIGURED NB"}, got)
}

func TestSubscribe(t *testing.T) {
	r := newRig(t)
	stream, err := r.manager.Subscribe(t.Context(), &generic.SubscribeRequest{Subscriptions: []*generic.Subscription{
		{Id: &generic.Item_ID{Model: "vpp.route"}}, {Id: item(tap("a")).Id},
	}})
	r.ok(err)
	_, err = stream.Header() // the subscription is in place
	r.ok(err)
	_, err = r.manager.SetConfig(t.Context(), setting(item(tap("a")), item(tap("b")), item(route("missing"))))
	r.ok(err)
	response, err := stream.Recv()
	r.ok(err)
	got := make(map[string]string)
	for _, n := range response.GetNotifications() {
		got[n.GetItem().GetId().GetName()] = n.GetStatus().GetStatus()
	}
	want(t, map[string]string{"a": "CONFIGURED", item(route("missing")).Id.Name: "PENDING"}, got)
}

func TestManagerRefuses(t *testing.T) {
	r := newRig(t)
	garbage := item(tap("a"))
	garbage.Data.GetAny().Value = []byte("\xff\xff")
	unknown := item(tap("a"))
	unknown.Data.GetAny().TypeUrl = "models.ligato.io/no.such.Message"
	for name, request := range map[string]*generic.SetConfigRequest{
		"nothing":       {Updates: []*generic.UpdateItem{{}}},
		"no item":       {Updates: []*generic.UpdateItem{nil}},
		"unknown model": setting(&generic.Item{Id: &generic.Item_ID{Model: "no.such", Name: "x"}}),
		"no name":       setting(&generic.Item{Id: &generic.Item_ID{Model: "vpp.interfaces"}}),
		"empty data":    setting(&generic.Item{Data: &generic.Data{}}),
		"garbage":       setting(garbage),
		"unknown type":  setting(unknown),
		"not a model":   setting(&generic.Item{Data: &generic.Data{Union: &generic.Data_Any{Any: &anypb.Any{TypeUrl: "x/ligato.generic.Item"}}}}),
		"twice":         setting(item(tap("a")), removal(tap("a"))),
		"name is empty": setting(item(tap(""))),
	} {
		if _, err := r.manager.SetConfig(t.Context(), request); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	want(t, map[string]string{etcdKey: "CONFIGURED"}, r.requested(&generic.GetConfigRequest{}))
}
