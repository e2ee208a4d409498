package northbound_test

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/rpc"
	"github.com/contiv/contiv/api/ligato/configurator"
	"github.com/contiv/contiv/api/ligato/generic"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/plugins/contivgrpc"
	"github.com/contiv/contiv/models"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Clients create names from their own templates. For a route without next hop, the name ends with a
// slash. Keys are cleaned like paths.
func TestNamesOfItemsAreCleaned(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{
		"if/a/vrf/0/dst/10.1.0.0/16/", "/if/a/vrf/0/dst/10.1.0.0/16", "if//a/vrf/0/./dst/10.1.0.0/16//",
	} {
		_, err := r.manager.SetConfig(t.Context(), setting(item(tap("a")), item(route("a"))))
		r.ok(err)
		id := &generic.Item_ID{Model: "vpp.route", Name: name}
		if got := r.requested(&generic.GetConfigRequest{Ids: []*generic.Item_ID{id}}); len(got) != 1 {
			t.Errorf("GetConfig of %q: %v", name, got)
		}
		response, err := r.manager.SetConfig(t.Context(), setting(&generic.Item{Id: id}))
		r.ok(err)
		result := response.GetResults()[1]
		if result.GetKey() != models.Key(route("a")) || result.GetStatus().GetStatus() != "REMOVED" && result.GetStatus().GetStatus() != "NONEXISTENT" || result.GetStatus().GetMessage() != "" {
			t.Errorf("delete of %q: %v", name, result)
		}
		want(t, map[string]string{models.Key(tap("a")): "CONFIGURED", etcdKey: "CONFIGURED"}, r.requested(&generic.GetConfigRequest{}))
	}
}

func TestDeleteThatMatchesNothingSaysSo(t *testing.T) {
	r := newRig(t)
	response, err := r.manager.SetConfig(t.Context(), setting(removal(tap("a"))))
	r.ok(err)
	results := response.GetResults()
	last := results[len(results)-1]
	if last.GetOp() != generic.UpdateResult_DELETE || !strings.Contains(last.GetStatus().GetMessage(), `nothing was deleted: client "grpc" has no value with this key`) {
		t.Errorf("result %v", last)
	}
}

// The first result is the number of the transaction, which `agentctl` reads.
func TestSetConfigReturnsTheTransaction(t *testing.T) {
	r := newRig(t)
	var header metadata.MD
	response, err := r.manager.SetConfig(t.Context(), setting(item(tap("a"))), grpc.Header(&header))
	r.ok(err)
	first := response.GetResults()[0]
	seq, err := strconv.ParseUint(first.GetStatus().GetMessage(), 10, 64)
	if first.GetKey() != "seqnum" || err != nil || r.scheduler.RecordedTxn(seq) == nil || header.Get("seqnum")[0] != first.GetStatus().GetMessage() {
		t.Errorf("first result %v, header %v", first, header)
	}
}

func TestGetConfigIgnoresUnknownModels(t *testing.T) {
	r := newRig(t)
	unknown, known := &generic.Item_ID{Model: "no.such", Name: "x"}, item(tap("of-etcd")).GetId()
	want(t, map[string]string{}, r.requested(&generic.GetConfigRequest{Ids: []*generic.Item_ID{unknown}}))
	want(t, map[string]string{etcdKey: "CONFIGURED"}, r.requested(&generic.GetConfigRequest{Ids: []*generic.Item_ID{unknown, known}}))
}

// A value that the vswitch does not support is stored, and the request succeeds.
func TestUnsupportedValuesDoNotFailTheRequest(t *testing.T) {
	r := newRig(t)
	var header metadata.MD
	response, err := r.manager.SetConfig(t.Context(), setting(item(tap("a")), item(tap("cannot"))), grpc.Header(&header))
	r.ok(err)
	got := response.GetResults()[2].GetStatus()
	if got.GetStatus() != "UNIMPLEMENTED" || !strings.Contains(got.GetMessage(), "no such feature") {
		t.Errorf("result %v", got)
	}
	if warnings := header.Get(contivgrpc.WarningMetadata); len(warnings) != 1 || !strings.Contains(warnings[0], "no such feature") {
		t.Errorf("warnings %q", warnings)
	}
	_, err = r.config.Update(t.Context(), &configurator.UpdateRequest{Update: configOf(nil, tap("b"), tap("cannot-either"))})
	r.ok(err)
	want(t, map[string]string{
		models.Key(tap("a")): "CONFIGURED", models.Key(tap("cannot")): "UNIMPLEMENTED",
		models.Key(tap("b")): "CONFIGURED", models.Key(tap("cannot-either")): "UNIMPLEMENTED", etcdKey: "CONFIGURED",
	}, r.requested(&generic.GetConfigRequest{}))

	if _, err = r.manager.SetConfig(t.Context(), setting(item(tap("bad")), item(tap("cannot-again")))); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("with a failure: %v", err)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), contivgrpc.RevertMetadata, "true")
	if _, err = r.manager.SetConfig(ctx, setting(item(tap("cannot-at-all")))); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("all or nothing: %v", err)
	}
}

// The same holds for Contiv's original API.
func TestUnsupportedValuesDoNotFailPut(t *testing.T) {
	r := newRig(t)
	request := &rpc.DataRequest{Interfaces: []*vpp_interfaces.Interface{tap("a"), tap("cannot")}}
	if _, err := r.change.Put(t.Context(), request); err != nil {
		t.Error(err)
	}
	want(t, map[string]string{models.Key(tap("a")): "CONFIGURED", models.Key(tap("cannot")): "UNIMPLEMENTED", etcdKey: "CONFIGURED"}, r.requested(&generic.GetConfigRequest{}))
	request.Revert = true
	if _, err := r.change.Put(t.Context(), request); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("all or nothing: %v", err)
	}
}

// Clients may request any future notification number.
func TestNotifyBeyondTheLast(t *testing.T) {
	r := newRig(t)
	stream, err := r.config.Notify(t.Context(), &configurator.NotifyRequest{Idx: 1 << 20})
	r.ok(err)
	received := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() { // the call may start after the first notifications
		for {
			r.report("tap", vpp_interfaces.InterfaceState_UP)
			select {
			case <-received:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	_, err = stream.Recv()
	close(received)
	group.Wait()
	r.ok(err)
}
