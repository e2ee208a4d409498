package fake_test

import (
	"context"
	"testing"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch/descriptors"
	"github.com/contiv/contiv/internal/vswitch/fake"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/types/known/emptypb"
)

// A value that depends on a link comes and goes with it.
func TestValuesDependOnLinks(t *testing.T) {
	const key = "needs/link"
	node := fake.NewNetwork().NewNode("node", kernelLike)
	vs := node.Open()
	s := kvscheduler.New(kvscheduler.Options{})
	t.Cleanup(func() { s.Close(); vs.Close() })
	if err := descriptors.Register(s, vs); err != nil {
		t.Fatal(err)
	}
	err := kvscheduler.Register(s, kvscheduler.Descriptor[*emptypb.Empty, kvscheduler.NoMetadata]{
		Name: "needs-link", Keys: kvscheduler.KeySpace{Prefix: "needs/"}, NB: true,
		Create: func(context.Context, string, *emptypb.Empty) (kvscheduler.NoMetadata, error) {
			return kvscheduler.NoMetadata{}, nil
		},
		Delete: func(context.Context, string, *emptypb.Empty, kvscheduler.NoMetadata) error { return nil },
		Dependencies: func(string, *emptypb.Empty) []kvscheduler.Dependency {
			return []kvscheduler.Dependency{{Label: "interface-link-is-UP", Key: models.LinkStateKey("tap1", true)}}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	watcher, _ := s.Watch(key)
	await := func(want pb.ValueState) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for s.ValueStatus(key).GetValue().GetState() != want {
			if _, err := watcher.Next(ctx); err != nil {
				t.Fatalf("%v, want %v", s.ValueStatus(key), want)
			}
		}
	}
	tap := &vpp_interfaces.Interface{
		Name: "tap1", Type: vpp_interfaces.Interface_TAP, Enabled: true,
		Link: &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{Version: 2}},
	}
	put := s.NewTransaction()
	put.Put(key, &emptypb.Empty{})
	if _, err := put.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(pb.ValueState_PENDING)
	put = s.NewTransaction()
	put.Put(models.Key(tap), tap)
	if _, err := put.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(pb.ValueState_CONFIGURED)
	for range 2 {
		if err := node.SetLink("tap1", false); err != nil {
			t.Fatal(err)
		}
		await(pb.ValueState_PENDING)
		if err := node.SetLink("tap1", true); err != nil {
			t.Fatal(err)
		}
		await(pb.ValueState_CONFIGURED)
	}
	remove := s.NewTransaction()
	remove.Delete(models.Key(tap))
	if _, err := remove.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(pb.ValueState_PENDING)
}
