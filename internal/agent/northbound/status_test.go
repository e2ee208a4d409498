package northbound_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/rpc"
	"github.com/contiv/contiv/api/ligato/generic"
	"github.com/contiv/contiv/internal/plugins/contivgrpc"
	"github.com/contiv/contiv/models"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// next reads one message as lines "key STATE waits for".
func next(t *testing.T, stream grpc.ServerStreamingClient[rpc.StatusResponse]) (lines []string) {
	t.Helper()
	response, err := stream.Recv()
	if err == io.EOF {
		return []string{"end"}
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range response.GetStatuses() {
		line := st.GetValue().GetKey() + " " + st.GetValue().GetState().String() + " " + strings.Join(st.GetWaitsFor(), ",")
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

func TestWatchSendsChangedStatuses(t *testing.T) {
	r := newRig(t)
	_, err := r.manager.SetConfig(t.Context(), setting(item(tap("a")), item(route("b"))))
	r.ok(err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	keyB, keyRoute := models.Key(tap("b")), models.Key(route("b"))
	stream, err := r.status.Watch(ctx, &rpc.StatusRequest{Keys: []string{keyB, models.VPPRoute.KeyPrefix()}, Follow: true})
	r.ok(err)
	wantLines := func(want ...string) {
		t.Helper()
		if got := next(t, stream); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	wantLines(keyRoute+" PENDING interface: "+keyB, keyB+" NONEXISTENT")
	_, err = r.manager.SetConfig(t.Context(), setting(item(tap("b"))))
	r.ok(err)
	wantLines(keyB+" CONFIGURED", keyRoute+" CONFIGURED")
	_, err = r.manager.SetConfig(t.Context(), setting(removal(route("b"))))
	r.ok(err)
	wantLines(keyRoute + " REMOVED")

	once, err := r.status.Watch(t.Context(), &rpc.StatusRequest{})
	r.ok(err)
	if got := strings.Join(append(next(t, once), next(t, once)...), "\n"); got != models.Key(tap("a"))+" CONFIGURED\n"+keyB+" CONFIGURED\n"+etcdKey+" CONFIGURED\nend" {
		t.Errorf("all: %s", got)
	}
	r.stop()
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the agent ends: %v", err)
	}
}

func TestStatusesOfImpossibleKeys(t *testing.T) {
	r := newRig(t)
	for key, want := range map[string]string{
		"vpp/interface/a":             "begin with config/",
		"config/vpp/v2/interface/abc": `did you mean "config/vpp/v2/interfaces/"?`,
	} {
		stream, err := r.status.Watch(t.Context(), &rpc.StatusRequest{Keys: []string{key}})
		r.ok(err)
		if _, err := stream.Recv(); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", key, err, want)
		}
	}
}

func TestGetConfigOfOneClient(t *testing.T) {
	r := newRig(t)
	ctx := metadata.AppendToOutgoingContext(t.Context(), contivgrpc.ClientMetadata, "router")
	_, err := r.manager.SetConfig(ctx, setting(item(tap("mine"))))
	r.ok(err)
	response, err := r.manager.GetConfig(ctx, &generic.GetConfigRequest{})
	r.ok(err)
	if items := response.GetItems(); len(items) != 1 || items[0].GetItem().GetId().GetName() != "mine" {
		t.Errorf("the client has %v", items)
	}
}
