package contivgrpc_test

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/rpc"
	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/bolt"
	"github.com/contiv/contiv/internal/plugins/contivgrpc"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/models"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is an agent with only the gRPC source: a real event loop, a real file, and a recording
// scheduler.
type rig struct {
	t         testing.TB
	path      string
	scheduler *scheduler
	file      store.Batcher
	source    *contivgrpc.Source
	loop      *controller.Controller
	pushed    chan controller.Event
	service   *contivgrpc.Service
	server    *grpc.Server
	listener  *bufconn.Listener
	conn      *grpc.ClientConn
	change    rpc.DataChangeServiceClient
	resync    rpc.DataResyncServiceClient
	stopped   bool
}

// observed signals pushed events; it drops a signal if the last one was not read.
type observed struct {
	controller.EventLoop
	pushed chan controller.Event
}

func (o observed) PushEvent(ctx context.Context, event controller.Event) error {
	err := o.EventLoop.PushEvent(ctx, event)
	select {
	case o.pushed <- event:
	default:
	}
	return err
}

// scheduler fails the configured keys, records all transactions, and blocks in the first one that
// matches hold.
type scheduler struct {
	plugintest.Scheduler
	mu      sync.Mutex
	txns    []controller.SchedulerTxn
	held    chan struct{} // nil if not held
	holding chan struct{}
}

func (s *scheduler) Commit(ctx context.Context, txn controller.SchedulerTxn) (controller.TxnResult, error) {
	s.mu.Lock()
	s.txns = append(s.txns, txn)
	held, holding := s.held, s.holding
	s.held = nil
	s.mu.Unlock()
	if held != nil {
		close(holding)
		<-held
	}
	return s.Scheduler.Commit(ctx, txn)
}

func (s *scheduler) hold() (holding <-chan struct{}, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := make(chan struct{})
	s.held, s.holding = held, make(chan struct{})
	return s.holding, func() { close(held) }
}

func (s *scheduler) transactions() []controller.SchedulerTxn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.txns
}

func (s *scheduler) ValueStatus(key string) *pb.BaseValueStatus {
	return &pb.BaseValueStatus{Value: &pb.ValueStatus{Key: key, State: pb.ValueState_RETRYING}}
}

func (r *rig) failing(keys ...string) {
	r.scheduler.FailKeys(func(txn controller.SchedulerTxn) (failed []string) {
		for _, kv := range txn.Values {
			for _, key := range keys {
				if kv.Key == key && kv.Value != nil {
					failed = append(failed, key)
				}
			}
		}
		return failed
	})
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, path: filepath.Join(t.TempDir(), "grpc.db"), scheduler: &scheduler{}}
	r.start()
	t.Cleanup(r.stop)
	return r
}

func (r *rig) start() {
	r.t.Helper()
	file, err := bolt.Open(r.path, time.Minute)
	if err != nil {
		r.t.Fatal(err)
	}
	r.startWith(file)
}

func (r *rig) startWith(file store.Batcher) {
	r.t.Helper()
	r.file = file
	var err error
	if r.source, err = contivgrpc.NewSource(context.Background(), file, plugintest.Logger()); err != nil {
		r.t.Fatal(err)
	}
	config := controller.DefaultConfig()
	config.EnableRetry = false
	r.loop = controller.New(controller.Options{
		Config: config, Scheduler: r.scheduler, Sources: []controller.ExternalConfigSource{r.source}, Log: plugintest.Logger(),
	})
	r.pushed = make(chan controller.Event, 1)
	r.service = contivgrpc.NewService(r.source, observed{r.loop, r.pushed}, r.scheduler, plugintest.Logger())
	r.server = grpc.NewServer()
	r.service.Register(r.server)
	r.listener = bufconn.Listen(1 << 20)
	go r.server.Serve(r.listener)
	r.conn = r.dial(r.listener.DialContext)
	r.change, r.resync = rpc.NewDataChangeServiceClient(r.conn), rpc.NewDataResyncServiceClient(r.conn)
	r.loop.Start()
	started := make(chan struct{})
	resync := &controller.DBResync{Processed: func(*controller.EventRecord) { close(started) }}
	if err := r.loop.PushEvent(context.Background(), resync); err != nil {
		r.t.Fatal(err)
	}
	<-started
	r.stopped = false
}

func (r *rig) dial(dial func(context.Context) (net.Conn, error)) *grpc.ClientConn {
	r.t.Helper()
	conn, err := grpc.NewClient("passthrough:agent", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }))
	if err != nil {
		r.t.Fatal(err)
	}
	return conn
}

func (r *rig) stop() {
	if r.stopped {
		return
	}
	r.stopped = true
	ctx, cancel := context.WithTimeout(context.Background(), plugintest.Timeout)
	defer cancel()
	r.conn.Close()
	r.server.Stop()
	if err := r.loop.Close(ctx); err != nil {
		r.t.Errorf("close the event loop: %v", err)
	}
	if err := r.source.Close(); err != nil {
		r.t.Errorf("close the source: %v", err)
	}
	if err := r.file.Close(); err != nil {
		r.t.Errorf("close the file: %v", err)
	}
}

func (r *rig) restart() {
	r.t.Helper()
	r.stop()
	r.scheduler = &scheduler{}
	r.start()
}

func (r *rig) put(request *rpc.DataRequest) error {
	_, err := r.change.Put(r.t.Context(), request)
	return err
}

func (r *rig) del(request *rpc.DataRequest) error {
	_, err := r.change.Del(r.t.Context(), request)
	return err
}

func (r *rig) sync(request *rpc.DataRequest) error {
	_, err := r.resync.Resync(r.t.Context(), request)
	return err
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) want(values ...proto.Message) {
	r.t.Helper()
	want := plugintest.Txn{}
	for _, value := range values {
		want[models.Key(value)] = value
	}
	if diff := plugintest.Diff(want, r.scheduler.Values()); diff != "" {
		r.t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func loop(name string, addresses ...string) *vpp_interfaces.Interface {
	return &vpp_interfaces.Interface{Name: name, Type: vpp_interfaces.Interface_SOFTWARE_LOOPBACK, IpAddresses: addresses}
}

func interfaces(values ...*vpp_interfaces.Interface) *rpc.DataRequest {
	return &rpc.DataRequest{Interfaces: values}
}

func loopKey(name string) string { return models.Key(loop(name)) }
