package northbound_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/contiv/contiv/api/contiv/rpc"
	"github.com/contiv/contiv/api/ligato/configurator"
	"github.com/contiv/contiv/api/ligato/generic"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/agent/northbound"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/plugins/contivgrpc"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is an agent with interfaces and routes in memory. Interfaces with the prefix "bad" fail, and
// those with "cannot" are unsupported. Routes depend on their interfaces.
type rig struct {
	t         *testing.T
	scheduler *kvscheduler.Scheduler
	manager   generic.ManagerServiceClient
	meta      generic.MetaServiceClient
	config    configurator.ConfiguratorServiceClient
	status    rpc.StatusServiceClient
	change    rpc.DataChangeServiceClient
	stats     configurator.StatsPollerServiceClient
	// states of the vswitch's interfaces; report changes one.
	states []*vpp_interfaces.InterfaceState
	report func(name string, status vpp_interfaces.InterfaceState_Status)
	stop   func()
}

// values holds the values of one model in memory.
type values[V proto.Message] struct {
	mu     sync.Mutex
	exists map[string]V
}

func describe[V proto.Message](name string, m *models.Model, deps func(key string, v V) []kvscheduler.Dependency) kvscheduler.Descriptor[V, kvscheduler.NoMetadata] {
	all := &values[V]{exists: make(map[string]V)}
	type item = kvscheduler.Item[V, kvscheduler.NoMetadata]
	return kvscheduler.Descriptor[V, kvscheduler.NoMetadata]{
		Name: name, Keys: kvscheduler.KeySpace{Prefix: m.KeyPrefix()}, NB: true, Dependencies: deps,
		Create: func(_ context.Context, key string, v V) (kvscheduler.NoMetadata, error) {
			all.mu.Lock()
			defer all.mu.Unlock()
			if strings.HasPrefix(strings.TrimPrefix(key, m.KeyPrefix()), "bad") {
				return kvscheduler.NoMetadata{}, errors.New("no such device")
			}
			if strings.HasPrefix(strings.TrimPrefix(key, m.KeyPrefix()), "cannot") {
				return kvscheduler.NoMetadata{}, fmt.Errorf("%w: no such feature", kvscheduler.ErrUnsupported)
			}
			all.exists[key] = v
			return kvscheduler.NoMetadata{}, nil
		},
		Delete: func(_ context.Context, key string, _ V, _ kvscheduler.NoMetadata) error {
			all.mu.Lock()
			defer all.mu.Unlock()
			delete(all.exists, key)
			return nil
		},
		Retrieve: func(context.Context, []item) (found []item, err error) {
			all.mu.Lock()
			defer all.mu.Unlock()
			for key, v := range all.exists {
				found = append(found, item{Key: key, Value: v, Origin: kvscheduler.FromNB})
			}
			return found, nil
		},
	}
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, scheduler: kvscheduler.New(kvscheduler.Options{Logger: plugintest.Logger()})}
	err := errors.Join(
		kvscheduler.Register(r.scheduler, describe[*vpp_interfaces.Interface]("interfaces", models.VPPInterface, nil)),
		kvscheduler.Register(r.scheduler, describe("routes", models.VPPRoute, func(_ string, v *vpp_l3.Route) []kvscheduler.Dependency {
			return []kvscheduler.Dependency{{Label: "interface", Key: models.VPPInterfaceKey(v.GetOutgoingInterface())}}
		})))
	if err != nil {
		t.Fatal(err)
	}
	source, err := contivgrpc.NewSource(t.Context(), memory.New(), plugintest.Logger())
	if err != nil {
		t.Fatal(err)
	}
	config := controller.DefaultConfig()
	config.EnableRetry = false
	loop := controller.New(controller.Options{
		Config: config, Scheduler: controller.NewScheduler(r.scheduler), Sources: []controller.ExternalConfigSource{source}, Log: plugintest.Logger(),
	})
	loop.Start()
	resynced := make(chan struct{})
	db := &controller.DBResync{
		External:  controller.ExternalConfig{models.Key(tap("of-etcd")): tap("of-etcd")},
		Processed: func(*controller.EventRecord) { close(resynced) },
	}
	if err := loop.PushEvent(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	<-resynced
	service := contivgrpc.NewService(source, loop, r.scheduler, plugintest.Logger())
	ligato := northbound.NewLigato(northbound.Options{
		Clients: service, Items: source.Items, External: loop.ExternalValues, Scheduler: r.scheduler, Log: plugintest.Logger(),
		States: func(context.Context) ([]*vpp_interfaces.InterfaceState, error) { return r.states, nil },
	})
	r.report = func(name string, status vpp_interfaces.InterfaceState_Status) {
		ligato.InterfaceChanged(&vpp_interfaces.InterfaceState{Name: name, AdminStatus: status, OperStatus: status})
	}
	server := northbound.NewServer(listener.Options{AllowUnauthenticated: true}.Client, nil, plugintest.Logger())
	ligato.Register(server)
	service.Register(server)
	running, stop := context.WithCancel(context.Background())
	northbound.NewStatusService(r.scheduler, running.Done()).Register(server)
	listener := bufconn.Listen(1 << 20)
	r.stop = stop
	var group sync.WaitGroup
	group.Go(func() { server.Serve(listener) })
	group.Go(func() { ligato.Run(running) })
	conn, err := grpc.NewClient("passthrough:agent", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		stop()
		server.Server.Stop()
		group.Wait()
		if err := errors.Join(loop.Close(context.Background()), source.Close(), r.scheduler.Close()); err != nil {
			t.Error(err)
		}
	})
	r.manager, r.meta, r.config = generic.NewManagerServiceClient(conn), generic.NewMetaServiceClient(conn), configurator.NewConfiguratorServiceClient(conn)
	r.stats = configurator.NewStatsPollerServiceClient(conn)
	r.status = rpc.NewStatusServiceClient(conn)
	r.change = rpc.NewDataChangeServiceClient(conn)
	return r
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func tap(name string) *vpp_interfaces.Interface {
	return &vpp_interfaces.Interface{Name: name, Type: vpp_interfaces.Interface_TAP, Enabled: true}
}

func route(via string) *vpp_l3.Route {
	return &vpp_l3.Route{DstNetwork: "10.1.0.0/16", OutgoingInterface: via}
}
