// Package clienttest runs a node agent in memory, for tests and examples of programs that use
// package client. Event loop, scheduler, sources and services are the real ones; the vswitch is a
// map of names:
//
//   - interfaces with a name that begins with "bad" fail with "no such device"
//   - addresses are derived from interfaces
//   - routes depend on their outgoing interface
//   - other kinds of values are UNIMPLEMENTED
package clienttest

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/agent/northbound"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/controller/dbwatcher"
	"github.com/contiv/contiv/internal/controller/feedback"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/plugins/contivgrpc"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/types/known/emptypb"
)

// Node is the name of the agent's node.
const Node = "node1"

type Agent struct {
	// Address of the gRPC API: "unix:///path" or "host:port".
	Address string
	// Scheduler of the agent, for inspection.
	Scheduler *kvscheduler.Scheduler
	closers   []func() error
}

// Options configure an agent.
type Options struct {
	// Listener serves gRPC; nil: a socket in a temporary directory. The agent closes it.
	Listener net.Listener
	// Clients authenticates clients; nil: everyone may do everything.
	Clients func(net.Conn) listener.Client
	// Log receives the changes of clients; may be nil.
	Log *slog.Logger
	// Etcd has the endpoints of an etcd as a second source of configuration; may be empty.
	Etcd []string
}

// Start starts an agent. It retries failed operations after a minute or later.
func Start(o Options) (a *Agent, err error) {
	log := slog.New(slog.DiscardHandler)
	a = &Agent{Scheduler: kvscheduler.New(kvscheduler.Options{Logger: log})}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
			a = nil
		}
	}()
	a.atClose(a.Scheduler.Close)
	if err := register(a.Scheduler); err != nil {
		return a, err
	}
	file := memory.New()
	source, err := contivgrpc.NewSource(context.Background(), file, log)
	if err != nil {
		return a, err
	}
	a.atClose(source.Close)
	config := controller.DefaultConfig()
	config.DelayRetry *= 60
	options := controller.Options{
		Config: config, Scheduler: controller.NewScheduler(a.Scheduler),
		Sources: []controller.ExternalConfigSource{source}, Log: log,
	}
	var db *etcd.Store // may be nil
	var publisher *feedback.Publisher
	if len(o.Etcd) > 0 {
		if db, err = etcd.New(etcd.Config{Endpoints: o.Etcd}); err != nil {
			return a, err
		}
		a.atClose(db.Close)
		publisher = feedback.Start(feedback.Options{Node: Node, Store: db, Scheduler: a.Scheduler, Config: config, Log: log})
		a.atClose(func() error { publisher.Close(); return nil })
		options.Observer = publisher.GivenOutside
	}
	loop := controller.New(options)
	a.atClose(func() error { return loop.Close(context.Background()) })
	loop.Start()
	if db == nil {
		if err := loop.PushEvent(context.Background(), &controller.DBResync{}); err != nil {
			return a, err
		}
	} else {
		watcher := dbwatcher.Start(dbwatcher.Options{
			Node: Node, Remote: db, Local: file, Loop: loop, Standalone: true, Feedback: publisher, Config: config, Log: log,
		})
		a.atClose(func() error { watcher.Close(); return nil })
	}
	return a, a.serve(o, source, loop, log)
}

func (a *Agent) serve(o Options, source *contivgrpc.Source, loop *controller.Controller, log *slog.Logger) error {
	l := o.Listener
	if l == nil {
		dir, err := os.MkdirTemp("", "clienttest")
		if err != nil {
			return err
		}
		a.atClose(func() error { return os.RemoveAll(dir) })
		if l, err = listener.Unix(filepath.Join(dir, "grpc.sock")); err != nil {
			return err
		}
	}
	a.Address = l.Addr().String()
	if l.Addr().Network() == "unix" {
		a.Address = "unix://" + a.Address
	}
	service := contivgrpc.NewService(source, loop, a.Scheduler, log)
	running, stop := context.WithCancel(context.Background())
	if o.Clients == nil {
		o.Clients = listener.Options{AllowUnauthenticated: true}.Client
	}
	server := northbound.NewServer(o.Clients, nil, cmp.Or(o.Log, log))
	service.Register(server)
	northbound.NewLigato(northbound.Options{
		Clients: service, Items: source.Items, External: loop.ExternalValues, Scheduler: a.Scheduler, Log: log,
	}).Register(server)
	northbound.NewStatusService(a.Scheduler, running.Done()).Register(server)
	var serving sync.WaitGroup
	serving.Go(func() { server.Serve(l) })
	a.atClose(func() error {
		stop()
		server.Server.Stop()
		serving.Wait()
		return nil
	})
	return nil
}

func (a *Agent) atClose(f func() error) { a.closers = append(a.closers, f) }

// Close stops the agent and ends the calls of its clients.
func (a *Agent) Close() error {
	var errs []error
	for len(a.closers) > 0 {
		last := len(a.closers) - 1
		errs = append(errs, a.closers[last]())
		a.closers = a.closers[:last]
	}
	return errors.Join(errs...)
}

func register(s *kvscheduler.Scheduler) error {
	return errors.Join(
		kvscheduler.Register(s, kvscheduler.Descriptor[*vpp_interfaces.Interface, kvscheduler.NoMetadata]{
			Name: "interface", Keys: kvscheduler.KeySpace{Prefix: models.VPPInterface.KeyPrefix()}, NB: true,
			Create: func(_ context.Context, _ string, v *vpp_interfaces.Interface) (kvscheduler.NoMetadata, error) {
				if strings.HasPrefix(v.GetName(), "bad") {
					return kvscheduler.NoMetadata{}, errors.New("no such device")
				}
				return kvscheduler.NoMetadata{}, nil
			},
			Update: func(context.Context, string, *vpp_interfaces.Interface, *vpp_interfaces.Interface, kvscheduler.NoMetadata) (kvscheduler.NoMetadata, error) {
				return kvscheduler.NoMetadata{}, nil
			},
			Delete: func(context.Context, string, *vpp_interfaces.Interface, kvscheduler.NoMetadata) error { return nil },
			DerivedValues: func(_ string, v *vpp_interfaces.Interface) (derived []kvscheduler.KeyValue) {
				for _, address := range v.GetIpAddresses() {
					derived = append(derived, kvscheduler.KeyValue{
						Key: models.VPPInterfaceAddressKey(v.GetName(), models.AddrStatic, address), Value: &emptypb.Empty{},
					})
				}
				return derived
			},
		}),
		kvscheduler.Register(s, kvscheduler.Descriptor[*vpp_l3.Route, kvscheduler.NoMetadata]{
			Name: "route", Keys: kvscheduler.KeySpace{Prefix: models.VPPRoute.KeyPrefix()}, NB: true,
			Create: func(context.Context, string, *vpp_l3.Route) (kvscheduler.NoMetadata, error) {
				return kvscheduler.NoMetadata{}, nil
			},
			Delete: func(context.Context, string, *vpp_l3.Route, kvscheduler.NoMetadata) error { return nil },
			Dependencies: func(_ string, v *vpp_l3.Route) []kvscheduler.Dependency {
				return []kvscheduler.Dependency{{Label: "interface-exists", Key: models.VPPInterfaceKey(v.GetOutgoingInterface())}}
			},
		}))
}
