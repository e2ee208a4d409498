package contivgrpc_test

import (
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/rpc"
	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/plugins/contivgrpc"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
)

func TestPutDelResync(t *testing.T) {
	r := newRig(t)
	route := &vpp_l3.Route{DstNetwork: "10.1.0.0/16", NextHopAddr: "10.0.0.9", OutgoingInterface: "a"}
	r.ok(r.put(&rpc.DataRequest{Interfaces: interfaces(loop("a"), loop("b")).Interfaces, StaticRoutes: []*vpp_l3.Route{route}}))
	r.want(loop("a"), loop("b"), route)
	r.ok(r.put(interfaces(loop("a", "10.0.0.1/24"))))
	r.want(loop("a", "10.0.0.1/24"), loop("b"), route)
	r.ok(r.del(interfaces(loop("b"), loop("never-there"))))
	r.want(loop("a", "10.0.0.1/24"), route)
	r.ok(r.sync(interfaces(loop("c"))))
	r.want(loop("c"))
	r.ok(r.sync(&rpc.DataRequest{}))
	r.want()
}

func TestEveryFieldOfARequestCounts(t *testing.T) {
	r := newRig(t)
	request := &rpc.DataRequest{}
	var want []proto.Message
	fields := request.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if field.Number() >= 1000 {
			continue
		}
		value := request.ProtoReflect().NewField(field)
		message := value
		if field.IsList() {
			message = value.List().NewElement()
			name(message.Message())
			value.List().Append(message)
		}
		request.ProtoReflect().Set(field, value)
		want = append(want, message.Message().Interface())
	}
	r.ok(r.put(request))
	if got := len(r.scheduler.Values()); got != len(want) || got != 25 {
		t.Errorf("%d of 25 values arrived", got)
	}
	r.want(want...)
	r.restart()
	r.want(want...)
	r.ok(r.del(request))
	r.want()
}

func name(m protoreflect.Message) {
	for i := range m.Descriptor().Fields().Len() {
		if f := m.Descriptor().Fields().Get(i); f.Kind() == protoreflect.StringKind && !f.IsList() {
			m.Set(f, protoreflect.ValueOfString("x"))
			return
		}
	}
}

func TestUpdateIsOneTransaction(t *testing.T) {
	r := newRig(t)
	r.ok(r.put(interfaces(loop("old"), loop("kept"))))
	before := len(r.scheduler.transactions())
	request := interfaces(loop("new"))
	request.Delete = interfaces(loop("old"))
	r.ok(r.put(request))
	r.want(loop("new"), loop("kept"))
	if n := len(r.scheduler.transactions()) - before; n != 1 {
		t.Errorf("the update took %d transactions", n)
	}
}

func TestFailuresAreTold(t *testing.T) {
	r := newRig(t)
	r.failing(loopKey("bad"))
	err := r.put(interfaces(loop("good"), loop("bad")))
	st := status.Convert(err)
	if st.Code() != codes.FailedPrecondition || len(st.Details()) != 1 {
		t.Fatalf("status: %v %v", st, st.Details())
	}
	want := &rpc.TransactionError{
		Transaction: proto.Uint64(2),
		Items:       []*rpc.TransactionError_Item{{Key: loopKey("bad"), Cause: "made to fail", State: pb.ValueState_RETRYING}},
	}
	if diff := cmp.Diff(want, st.Details()[0], protocmp.Transform()); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
	r.restart()
	r.want(loop("good"), loop("bad"))
}

func TestRevert(t *testing.T) {
	byField := func(r *rig, request *rpc.DataRequest, call func(*rpc.DataRequest) error) error {
		request.Revert = true
		return call(request)
	}
	byMetadata := func(r *rig, request *rpc.DataRequest, _ func(*rpc.DataRequest) error) error {
		_, err := r.change.Put(metadata.AppendToOutgoingContext(t.Context(), contivgrpc.RevertMetadata, "true"), request)
		return err
	}
	resync := func(r *rig, request *rpc.DataRequest, _ func(*rpc.DataRequest) error) error {
		request.Revert = true
		return r.sync(request)
	}
	for name, call := range map[string]func(*rig, *rpc.DataRequest, func(*rpc.DataRequest) error) error{
		"field": byField, "metadata": byMetadata, "resync": resync,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.ok(r.put(interfaces(loop("before"))))
			r.failing(loopKey("bad"))
			st := status.Convert(call(r, interfaces(loop("good"), loop("bad")), r.put))
			if st.Code() != codes.FailedPrecondition || len(st.Details()) != 1 || !st.Details()[0].(*rpc.TransactionError).GetReverted() {
				t.Errorf("status: %v %v", st, st.Details())
			}
			r.restart()
			r.want(loop("before"))
		})
	}
}

func TestClientsAreKeptApart(t *testing.T) {
	r := newRig(t)
	for _, client := range []string{"a", "b"} {
		request := interfaces(loop("of-" + client))
		request.Client = client
		r.ok(r.put(request))
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), contivgrpc.ClientMetadata, "c")
	_, err := r.change.Put(ctx, interfaces(loop("of-c")))
	r.ok(err)
	r.ok(r.put(interfaces(loop("of-nobody"))))
	r.want(loop("of-a"), loop("of-b"), loop("of-c"), loop("of-nobody"))
	r.ok(r.sync(&rpc.DataRequest{Client: "b"}))
	r.want(loop("of-a"), loop("of-c"), loop("of-nobody"))
	_, err = r.resync.Resync(ctx, interfaces(loop("of-c-again")))
	r.ok(err)
	r.restart()
	r.want(loop("of-a"), loop("of-c-again"), loop("of-nobody"))
	r.ok(r.sync(&rpc.DataRequest{Client: "default"}))
	r.want(loop("of-a"), loop("of-c-again"))
}

func TestClientsThatShareAKey(t *testing.T) {
	r := newRig(t)
	first, second := interfaces(loop("x", "10.0.0.1/24")), interfaces(loop("x", "10.0.0.2/24"))
	first.Client, second.Client = "a", "b"
	r.ok(r.put(second))
	r.ok(r.put(first))
	r.want(loop("x", "10.0.0.1/24", "10.0.0.2/24"))
	r.ok(r.del(first))
	r.want(loop("x", "10.0.0.2/24"))
}

func TestAnswerNamesEventAndTransaction(t *testing.T) {
	r := newRig(t)
	var header metadata.MD
	_, err := r.change.Put(t.Context(), interfaces(loop("a")), grpc.Header(&header))
	r.ok(err)
	if got := [2][]string{header.Get(contivgrpc.EventMetadata), header.Get(contivgrpc.TxnMetadata)}; !cmp.Equal(got, [2][]string{{"1"}, {"2"}}) {
		t.Errorf("event and transaction: %q", got)
	}
}

func TestUnknownFieldsAreKeptAndReported(t *testing.T) {
	r := newRig(t)
	value := loop("a")
	value.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 1234, protowire.VarintType), 1))
	var header metadata.MD
	_, err := r.change.Put(t.Context(), interfaces(value), grpc.Header(&header))
	r.ok(err)
	if got := header.Get(contivgrpc.WarningMetadata); len(got) != 1 {
		t.Errorf("warnings: %q", got)
	}
	r.restart()
	if got := r.scheduler.Values()[loopKey("a")].ProtoReflect().GetUnknown(); len(got) != 3 {
		t.Errorf("the unknown field is lost after a restart: %x", got)
	}
}

func TestMistakesAreRefused(t *testing.T) {
	r := newRig(t)
	for what, test := range map[string]struct {
		call    func(*rpc.DataRequest) error
		request *rpc.DataRequest
	}{
		"without name":         {r.put, interfaces(loop(""))},
		"in the request twice": {r.put, interfaces(loop("a"), loop("a"))},
		"name of a client":     {r.put, &rpc.DataRequest{Client: "a/b"}},
		"no field 1100":        {r.put, withUnknown(1100)},
		"Del removes":          {r.del, &rpc.DataRequest{Delete: interfaces(loop("a"))}},
		"the values missing":   {r.sync, &rpc.DataRequest{Delete: interfaces(loop("a"))}},
		"makes no sense":       {r.put, &rpc.DataRequest{Delete: &rpc.DataRequest{Delete: &rpc.DataRequest{}}}},
		"4096 are allowed":     {r.put, interfaces(loop(string(make([]byte, 5000))))},
	} {
		t.Run(what, func(t *testing.T) {
			before := len(r.scheduler.transactions())
			test.request.Interfaces = append(test.request.Interfaces, loop("innocent"))
			wantStatus(t, test.call(test.request), codes.InvalidArgument, what)
			if len(r.scheduler.transactions()) > before {
				t.Error("something was done")
			}
		})
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), contivgrpc.RevertMetadata, "maybe")
	_, err := r.change.Put(ctx, interfaces(loop("a")))
	wantStatus(t, err, codes.InvalidArgument, "maybe")
	both := interfaces(loop("a"))
	both.Delete = interfaces(loop("a"))
	wantStatus(t, r.put(both), codes.InvalidArgument, "twice")
	if len(r.scheduler.Values()) > 0 {
		t.Errorf("configured: %v", r.scheduler.Values())
	}
}

func withUnknown(field protoreflect.FieldNumber) *rpc.DataRequest {
	request := &rpc.DataRequest{}
	request.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.VarintType), 1))
	return request
}

func wantStatus(t *testing.T, err error, code codes.Code, text string) {
	t.Helper()
	if st := status.Convert(err); st.Code() != code || !strings.Contains(st.Message(), text) {
		t.Errorf("want %v with %q, got %v", code, text, err)
	}
}
