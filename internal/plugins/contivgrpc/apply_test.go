package contivgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/contiv/contiv/api/contiv/rpc"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/bolt"
	"github.com/contiv/contiv/internal/plugins/contivgrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

func TestCallThatEndsBeforeItsTurnDoesNothing(t *testing.T) {
	r := newRig(t)
	holding, release := r.scheduler.hold()
	first := make(chan error, 1)
	go func() { first <- r.put(interfaces(loop("first"))) }()
	<-holding
	<-r.pushed

	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() {
		_, err := r.service.Apply(ctx, contivgrpc.Change{Client: "a", Values: controller.ExternalConfig{loopKey("second"): loop("second")}})
		second <- err
	}()
	<-r.pushed
	cancel()
	wantStatus(t, <-second, codes.Canceled, "nothing was changed")
	release()
	r.ok(<-first)
	r.ok(r.put(interfaces(loop("third"))))
	r.want(loop("first"), loop("third"))
	r.restart()
	r.want(loop("first"), loop("third"))
}

func TestCallThatEndsLaterIsCompleted(t *testing.T) {
	r := newRig(t)
	holding, release := r.scheduler.hold()
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := r.service.Apply(ctx, contivgrpc.Change{Client: "a", Values: controller.ExternalConfig{loopKey("x"): loop("x")}})
		result <- err
	}()
	<-holding
	cancel()
	wantStatus(t, <-result, codes.Canceled, "will be completed")
	release()
	r.ok(r.put(interfaces(loop("y"))))
	r.want(loop("x"), loop("y"))
	r.restart()
	r.want(loop("x"), loop("y"))
}

func TestClientDiesInTheMiddleOfItsRequest(t *testing.T) {
	r := newRig(t)
	connections := make(chan net.Conn, 8)
	dying := r.dial(func(ctx context.Context) (net.Conn, error) {
		conn, err := r.listener.DialContext(ctx)
		if err == nil {
			connections <- conn
		}
		return conn, err
	})
	defer dying.Close()
	holding, release := r.scheduler.hold()
	result := make(chan error, 1)
	go func() {
		_, err := rpc.NewDataChangeServiceClient(dying).Put(t.Context(), interfaces(loop("x"), loop("x2")))
		result <- err
	}()
	<-holding
	(<-connections).Close()
	if err := <-result; status.Code(err) != codes.Unavailable {
		t.Errorf("the client got %v, want that the connection is gone", err)
	}
	release()
	r.ok(r.put(interfaces(loop("y"))))
	r.want(loop("x"), loop("x2"), loop("y"))
	r.restart()
	r.want(loop("x"), loop("x2"), loop("y"))
}

func TestFullQueueAndEnd(t *testing.T) {
	r := newRig(t)
	holding, release := r.scheduler.hold()
	first := make(chan error, 1)
	go func() { first <- r.put(interfaces(loop("first"))) }()
	<-holding
	var requests []*controller.ExternalRequest
	for {
		request := &controller.ExternalRequest{}
		if r.loop.PushEvent(t.Context(), &controller.ExternalConfigResync{Source: contivgrpc.Name, Request: request}) != nil {
			break
		}
		requests = append(requests, request)
	}
	wantStatus(t, r.put(interfaces(loop("second"))), codes.ResourceExhausted, "full")
	for _, request := range requests {
		request.Withdraw()
	}
	release()
	r.ok(<-first)
	r.ok(r.loop.Close(t.Context()))
	wantStatus(t, r.put(interfaces(loop("third"))), codes.Unavailable, "closed")
}

func TestManyClientsAtOnce(t *testing.T) {
	r := newRig(t)
	const clients, rounds = 100, 10
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			for round := range rounds {
				request := interfaces(loop(fmt.Sprintf("own-%d", i), fmt.Sprintf("10.0.%d.1/24", round)), loop("shared", fmt.Sprintf("10.%d.%d.1/24", i, round)))
				request.Client = fmt.Sprintf("client-%d", i%10)
				if err := r.put(request); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	before := r.scheduler.Values()
	if len(before) != clients+1 {
		t.Errorf("%d values", len(before))
	}
	r.restart()
	var want []proto.Message
	for _, value := range before {
		want = append(want, value)
	}
	r.want(want...)
}

func TestLargeValue(t *testing.T) {
	r := newRig(t)
	value := loop("large", strings.Repeat("10.0.0.1/24 ", 1<<20/12))
	r.ok(r.put(interfaces(value)))
	r.restart()
	r.want(value)
}

type breakable struct {
	store.Batcher
	broken atomic.Bool
}

func (b *breakable) Batch(ctx context.Context, changes []store.Change) error {
	if b.broken.Load() {
		return errors.New("no space left on device")
	}
	return b.Batcher.Batch(ctx, changes)
}

func TestFullDisk(t *testing.T) {
	r := newRig(t)
	r.stop()
	file, err := bolt.Open(r.path, 0)
	r.ok(err)
	disk := &breakable{Batcher: file}
	r.startWith(disk)
	disk.broken.Store(true)
	wantStatus(t, r.put(interfaces(loop("a"))), codes.Internal, "not saved")
	r.want(loop("a"))
	disk.broken.Store(false)
	r.ok(r.put(interfaces(loop("b"))))
	r.restart()
	r.want(loop("a"), loop("b"))
}

func TestSavedValuesThatCannotBeUnderstood(t *testing.T) {
	r := newRig(t)
	r.ok(r.put(interfaces(loop("a"))))
	for key, value := range map[string]string{
		"client/default/" + loopKey("garbage"): "\xff\xff",
		"client/default/config/unknown/x":      "",
		"client/default":                       "",
		"client/default/" + loopKey("empty"):   "",
	} {
		r.ok(r.file.Put(t.Context(), key, []byte(value)))
	}
	r.restart()
	r.want(loop("a"))
}
