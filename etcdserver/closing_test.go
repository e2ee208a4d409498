package etcdserver

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A server that closes takes no new calls, which could keep it from closing; watches would for good.
func TestClosingServerRefusesCalls(t *testing.T) {
	s := start(t, testOptions(t))
	c := client(t, s.Endpoint())
	if _, err := c.Get(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	s.closing.Store(true)
	if _, err := pb.NewKVClient(c.ActiveConnection()).Range(t.Context(), &pb.RangeRequest{Key: []byte("k")}); status.Code(err) != codes.Unavailable {
		t.Errorf("a call: %v", err)
	}
	watch, err := pb.NewWatchClient(c.ActiveConnection()).Watch(t.Context())
	if err == nil {
		// It fails if the stream has ended already: Recv says why.
		_ = watch.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("k")}}})
		_, err = watch.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("a watch: %v", err)
	}
}
