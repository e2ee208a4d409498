package northbound_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/api/ligato/configurator"
	"github.com/contiv/contiv/api/ligato/generic"
	"github.com/contiv/contiv/api/ligato/linux"
	"github.com/contiv/contiv/api/ligato/netalloc"
	"github.com/contiv/contiv/api/ligato/vpp"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/models"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
)

func configOf(routes []*vpp_l3.Route, interfaces ...*vpp_interfaces.Interface) *configurator.Config {
	return &configurator.Config{
		VppConfig:      &vpp.ConfigData{Interfaces: interfaces, Routes: routes},
		LinuxConfig:    &linux.ConfigData{},
		NetallocConfig: &netalloc.ConfigData{},
	}
}

func (r *rig) wantConfig(want *configurator.Config) {
	r.t.Helper()
	got, err := r.config.Get(r.t.Context(), &configurator.GetRequest{})
	r.ok(err)
	if diff := cmp.Diff(want, got.GetConfig(), protocmp.Transform()); diff != "" {
		r.t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func TestConfigurator(t *testing.T) {
	r := newRig(t)
	routes := []*vpp_l3.Route{route("a")}
	_, err := r.config.Update(t.Context(), &configurator.UpdateRequest{Update: configOf(routes, tap("a"), tap("b"))})
	r.ok(err)
	r.wantConfig(configOf(routes, tap("a"), tap("b"), tap("of-etcd")))
	dump, err := r.config.Dump(t.Context(), &configurator.DumpRequest{})
	r.ok(err)
	if diff := cmp.Diff(configOf(routes, tap("a"), tap("b"), tap("of-etcd")), dump.GetDump(), protocmp.Transform()); diff != "" {
		t.Errorf("dump (-want +got):\n%s", diff)
	}
	_, err = r.config.Delete(t.Context(), &configurator.DeleteRequest{Delete: configOf(nil, tap("b")), WaitDone: true})
	r.ok(err)
	r.wantConfig(configOf(routes, tap("a"), tap("of-etcd")))
	_, err = r.config.Update(t.Context(), &configurator.UpdateRequest{Update: configOf(nil, tap("c")), FullResync: true})
	r.ok(err)
	r.wantConfig(configOf(nil, tap("c"), tap("of-etcd")))
	_, err = r.config.Update(t.Context(), &configurator.UpdateRequest{FullResync: true})
	r.ok(err)
	r.wantConfig(configOf(nil, tap("of-etcd")))
}

func TestConfiguratorRefuses(t *testing.T) {
	r := newRig(t)
	for name, config := range map[string]*configurator.Config{
		"twice": configOf(nil, tap("a"), tap("a")), "no name": configOf(nil, tap("")),
	} {
		if _, err := r.config.Update(t.Context(), &configurator.UpdateRequest{Update: config}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := r.config.Update(t.Context(), &configurator.UpdateRequest{Update: configOf(nil, tap("bad"))}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a value that fails: %v", err)
	}
}

func TestWaitDone(t *testing.T) {
	r := newRig(t)
	done := make(chan error, 1)
	go func() {
		_, err := r.config.Update(t.Context(), &configurator.UpdateRequest{Update: configOf([]*vpp_l3.Route{route("late")}), WaitDone: true})
		done <- err
	}()
	watcher, statuses := r.scheduler.Watch(models.Key(route("late")))
	if len(statuses) == 0 {
		_, err := watcher.Next(t.Context())
		r.ok(err)
	}
	select {
	case err := <-done:
		t.Fatalf("not waited for the interface: %v", err)
	default:
	}
	_, err := r.config.Update(t.Context(), &configurator.UpdateRequest{Update: configOf(nil, tap("late"))})
	r.ok(err)
	r.ok(<-done)

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = r.config.Update(ctx, &configurator.UpdateRequest{Update: configOf([]*vpp_l3.Route{route("never")}), WaitDone: true})
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("the interface never comes: %v", err)
	}
}

func TestNotify(t *testing.T) {
	r := newRig(t)
	filter := &configurator.Notification{Notification: &configurator.Notification_VppNotification{VppNotification: &vpp.Notification{
		Interface: &vpp_interfaces.InterfaceNotification{State: &vpp_interfaces.InterfaceState{Name: "a"}},
	}}}
	notify := func(idx uint32) configurator.ConfiguratorService_NotifyClient {
		stream, err := r.config.Notify(t.Context(), &configurator.NotifyRequest{Idx: idx, Filters: []*configurator.Notification{filter}})
		r.ok(err)
		return stream
	}
	wantStatus := func(stream configurator.ConfiguratorService_NotifyClient, want vpp_interfaces.InterfaceState_Status) uint32 {
		t.Helper()
		n, err := stream.Recv()
		r.ok(err)
		if state := n.GetNotification().GetVppNotification().GetInterface().GetState(); state.GetName() != "a" || state.GetOperStatus() != want {
			t.Errorf("want %v, got %v", want, state)
		}
		return n.GetNextIdx()
	}
	stream := notify(0)
	r.report("b", vpp_interfaces.InterfaceState_UP)
	r.report("a", vpp_interfaces.InterfaceState_UP)
	next := wantStatus(stream, vpp_interfaces.InterfaceState_UP)
	r.report("a", vpp_interfaces.InterfaceState_DELETED)
	wantStatus(stream, vpp_interfaces.InterfaceState_DELETED)
	wantStatus(notify(next), vpp_interfaces.InterfaceState_DELETED)
	wantStatus(notify(0), vpp_interfaces.InterfaceState_UP)
}

// Following clients do not delay the end of the agent.
func TestStreamsEndWithTheAgent(t *testing.T) {
	r := newRig(t)
	notify, err := r.config.Notify(t.Context(), &configurator.NotifyRequest{Idx: 1000})
	r.ok(err)
	subscribe, err := r.manager.Subscribe(t.Context(), &generic.SubscribeRequest{})
	r.ok(err)
	_, err = subscribe.Header()
	r.ok(err)
	r.stop()
	if _, err := notify.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("Notify: %v", err)
	}
	for err = nil; err == nil; _, err = subscribe.Recv() {
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("Subscribe: %v", err)
	}
}

func TestMetaService(t *testing.T) {
	r := newRig(t)
	known, err := r.meta.KnownModels(t.Context(), &generic.KnownModelsRequest{Class: "config"})
	r.ok(err)
	if len(known.GetKnownModels()) != len(models.All()) {
		t.Errorf("%d models", len(known.GetKnownModels()))
	}
	for _, m := range known.GetKnownModels() {
		file := ""
		for _, o := range m.GetOptions() {
			if o.GetKey() == "protoFile" {
				file = o.GetValues()[0]
			}
		}
		descriptor, err := r.meta.ProtoFileDescriptor(t.Context(), &generic.ProtoFileDescriptorRequest{FullProtoFileName: file})
		r.ok(err)
		if descriptor.GetFileDescriptor().GetName() != file || len(descriptor.GetFileImportDescriptors().GetFile()) < len(descriptor.GetFileDescriptor().GetDependency()) {
			t.Errorf("%s: descriptor of %s", m.GetProtoName(), descriptor.GetFileDescriptor().GetName())
		}
	}
	tapFile, err := r.meta.ProtoFileDescriptor(t.Context(), &generic.ProtoFileDescriptorRequest{FullProtoFileName: "ligato/vpp/interfaces/interface.proto"})
	r.ok(err)
	if strings.Contains(tapFile.String(), "host_namespace") {
		t.Error("the description for ligato's clients contains our field")
	}
	if other, err := r.meta.KnownModels(t.Context(), &generic.KnownModelsRequest{Class: "other"}); err != nil || len(other.GetKnownModels()) > 0 {
		t.Errorf("models of another class: %v, %v", other, err)
	}
	metrics, err := r.meta.KnownModels(t.Context(), &generic.KnownModelsRequest{Class: "metrics"})
	r.ok(err)
	if len(metrics.GetKnownModels()) != 1 || metrics.GetKnownModels()[0].GetProtoName() != "ligato.govppmux.Metrics" || metrics.GetKnownModels()[0].GetSpec().GetModule() != "govppmux" {
		t.Errorf("metrics: %v", metrics)
	}
	if _, err := r.meta.ProtoFileDescriptor(t.Context(), &generic.ProtoFileDescriptorRequest{FullProtoFileName: "x"}); status.Code(err) != codes.NotFound {
		t.Errorf("unknown file: %v", err)
	}
}
