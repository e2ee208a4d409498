package controller_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/controller"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

// source is an external source with a fixed snapshot.
type source struct {
	name     string
	snapshot controller.ExternalConfig
	err      error
}

func (s *source) String() string { return s.name }
func (s *source) GetConfigSnapshot() (controller.ExternalConfig, error) {
	return s.snapshot, s.err
}

func withSources(t *testing.T, sources []controller.ExternalConfigSource, test func(t *testing.T, r *rig)) {
	t.Helper()
	inBubbleWith(t, controller.DefaultConfig(), sources, test)
}

func (r *rig) wantConfig(want map[string]proto.Message) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.sched.values, protocmp.Transform()); diff != "" {
		r.t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

type values = map[string]proto.Message

func TestExternalValuesAreMergedOntoInternalOnes(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		internal := iface("1", "10.0.0.1/24")
		r.a.resync = func(_ context.Context, _ controller.Event, _ controller.KubeState, _ int, txn controller.ResyncOperations) error {
			txn.Put("if/1", internal)
			txn.Put("if/2", iface("2"))
			return nil
		}
		external := iface("1", "10.0.0.2/24")
		external.Enabled = true
		r.push(&controller.DBResync{External: controller.ExternalConfig{"if/1": external, "if/ext": iface("ext")}})
		merged := iface("1", "10.0.0.1/24", "10.0.0.2/24")
		merged.Enabled = true
		r.wantConfig(values{"if/1": merged, "if/2": iface("2"), "if/ext": iface("ext")})
		if !proto.Equal(internal, iface("1", "10.0.0.1/24")) {
			t.Error("the internal value was changed")
		}
		if got := r.GetConfig("if/1"); !proto.Equal(got, internal) {
			t.Errorf("GetConfig returns the external value %v", got)
		}
		if r.GetConfig("if/ext") != nil {
			t.Error("GetConfig returns an external value")
		}
	})
}

func TestExternalChanges(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		r.a.update = func(_ context.Context, e controller.Event, txn controller.UpdateOperations) (string, error) {
			switch e.Name() {
			case "add":
				txn.Put("if/1", iface("1", "10.0.0.1/24"))
			case "remove":
				txn.Delete("if/1")
			}
			return "", nil
		}
		change := func(value proto.Message) {
			r.push(&controller.ExternalConfigChange{Source: "db", Changes: controller.ExternalConfig{"if/1": value}})
		}
		r.do(newEvent("add"))
		change(iface("1", "10.0.0.2/24"))
		r.wantConfig(values{"if/1": iface("1", "10.0.0.1/24", "10.0.0.2/24")})
		change(iface("1", "10.0.0.3/24"))
		r.wantConfig(values{"if/1": iface("1", "10.0.0.1/24", "10.0.0.3/24")})
		r.do(newEvent("remove"))
		r.wantConfig(values{"if/1": iface("1", "10.0.0.3/24")})
		r.do(newEvent("add"))
		r.wantConfig(values{"if/1": iface("1", "10.0.0.1/24", "10.0.0.3/24")})
		change(nil)
		r.wantConfig(values{"if/1": iface("1", "10.0.0.1/24")})
		r.do(newEvent("remove"))
		r.wantConfig(values{})
	})
}

func TestLaterSourcesTakePrecedence(t *testing.T) {
	one, two := &source{name: "one"}, &source{name: "two"}
	value := func(mtu uint32) proto.Message {
		v := iface("1")
		v.Mtu = mtu
		return v
	}
	withSources(t, []controller.ExternalConfigSource{one, two}, func(t *testing.T, r *rig) {
		one.snapshot = controller.ExternalConfig{"if/1": value(1)}
		two.snapshot = controller.ExternalConfig{"if/1": value(2)}
		r.push(&controller.DBResync{External: controller.ExternalConfig{"if/1": value(3)}})
		r.wantConfig(values{"if/1": value(2)})
		r.push(&controller.ExternalConfigChange{Source: "one", Changes: controller.ExternalConfig{"if/1": value(4)}})
		r.wantConfig(values{"if/1": value(2)})
		r.push(&controller.ExternalConfigResync{Source: "two"})
		r.wantConfig(values{"if/1": value(4)})
		r.push(&controller.ExternalConfigChange{Source: "one", Changes: controller.ExternalConfig{"if/1": nil}})
		r.wantConfig(values{"if/1": value(3)})
	})
}

func TestSourceWithoutSnapshot(t *testing.T) {
	s := &source{name: "s", err: errors.New("file is locked")}
	withSources(t, []controller.ExternalConfigSource{s}, func(t *testing.T, r *rig) {
		r.started()
		r.push(&controller.ExternalConfigChange{Source: "s", Changes: controller.ExternalConfig{"if/1": iface("1")}})
		r.wantConfig(values{"if/1": iface("1")})
		r.push(&controller.DBResync{})
		r.wantConfig(values{"if/1": iface("1")})
		s.err = nil
		r.push(&controller.DBResync{})
		r.wantConfig(values{})
	})
}

func TestUnknownSourceIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		result := controller.NewBlocking()
		r.push(&controller.ExternalConfigChange{Source: "x", Changes: controller.ExternalConfig{"if/1": iface("1")}, Result: &result})
		if err := result.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), `"x"`) {
			t.Errorf("result: %v", err)
		}
	})
}

func TestFailuresOfExternalValuesAreNotHealed(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		r.sched.fail = failKey("if/ext")
		result := controller.NewBlocking()
		r.push(&controller.ExternalConfigChange{Source: "db", Changes: controller.ExternalConfig{"if/ext": iface("ext")}, Result: &result})
		if err := result.Wait(t.Context()); err == nil {
			t.Error("the sender got no error")
		}
		r.after(time.Minute)
		r.wantHistory("Database Resync", "External Config Change")
		r.push(&controller.DBResync{External: controller.ExternalConfig{"if/ext": iface("ext")}})
		if err := r.Ready(); err != nil {
			t.Errorf("an external value makes the agent unready: %v", err)
		}
	})
}

func TestFailureOfAMergedValueIsHealed(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		r.a.update = func(_ context.Context, e controller.Event, txn controller.UpdateOperations) (string, error) {
			if e.Name() == "x" {
				txn.Put("if/1", iface("1"))
			}
			return "", nil
		}
		r.do(newEvent("x"))
		r.sched.fail = failKey("if/1")
		r.push(&controller.ExternalConfigChange{Source: "db", Changes: controller.ExternalConfig{"if/1": iface("1")}})
		r.sched.fail = nil
		r.after(6 * time.Second)
		r.wantHistory("Database Resync", "x", "External Config Change", "Healing Resync")
	})
}
