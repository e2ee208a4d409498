package controller_test

import (
	"errors"
	"maps"
	"testing"

	"github.com/contiv/contiv/internal/controller"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
)

// clients is a source with clients.
type clients struct {
	source
	snapshots map[string]controller.ExternalConfig
}

func (c *clients) GetClientSnapshots() (map[string]controller.ExternalConfig, error) {
	return c.snapshots, c.err
}

// request pushes a change and returns its outcome.
func (r *rig) request(e *controller.ExternalConfigChange) controller.Outcome {
	r.t.Helper()
	var outcomes []controller.Outcome
	e.Request = &controller.ExternalRequest{OnOutcome: func(o controller.Outcome) { outcomes = append(outcomes, o) }}
	r.push(e)
	if len(outcomes) != 1 {
		r.t.Fatalf("got %d outcomes", len(outcomes))
	}
	return outcomes[0]
}

func put(keys ...string) controller.ExternalConfig {
	config := controller.ExternalConfig{}
	for _, key := range keys {
		config[key] = iface(key)
	}
	return config
}

func TestFailedChangeWithRevertLeavesNothing(t *testing.T) {
	s := &source{name: "s"}
	withSources(t, []controller.ExternalConfigSource{s}, func(t *testing.T, r *rig) {
		r.started()
		first := r.request(&controller.ExternalConfigChange{Source: "s", Changes: put("if/1", "if/2"), Revert: true})
		if !first.Accepted || first.Err != nil || first.Txn() == nil || first.Record.SeqNum != 1 {
			t.Errorf("outcome of a change that succeeds: %+v", first)
		}
		r.sched.fail = failKey("if/3")
		changes := put("if/1", "if/3")
		changes["if/1"] = iface("1", "10.0.0.1/24")
		changes["if/2"] = nil
		second := r.request(&controller.ExternalConfigChange{Source: "s", Changes: changes, Revert: true})
		if second.Accepted || second.Err == nil || second.Txn() == nil {
			t.Errorf("outcome of a change that fails: %+v", second)
		}
		if last := r.sched.txns[len(r.sched.txns)-1]; !last.Revert {
			t.Error("the transaction lacks Revert")
		}
		r.sched.fail = nil
		r.push(&controller.RequestedResync{Type: controller.UpstreamResync})
		r.wantConfig(values{"if/1": iface("if/1"), "if/2": iface("if/2")})
	})
}

func TestFailedChangeAtBestEffortIsAccepted(t *testing.T) {
	s := &source{name: "s"}
	withSources(t, []controller.ExternalConfigSource{s}, func(t *testing.T, r *rig) {
		r.started()
		r.sched.fail = failKey("if/2")
		if o := r.request(&controller.ExternalConfigChange{Source: "s", Changes: put("if/1", "if/2")}); !o.Accepted || o.Err == nil {
			t.Errorf("outcome: %+v", o)
		}
		r.sched.fail = nil
		r.push(&controller.RequestedResync{Type: controller.UpstreamResync})
		r.wantConfig(values{"if/1": iface("if/1"), "if/2": iface("if/2")})
	})
}

func TestChangeThatReplacesAll(t *testing.T) {
	s, other := &source{name: "s"}, &source{name: "other"}
	withSources(t, []controller.ExternalConfigSource{s, other}, func(t *testing.T, r *rig) {
		r.started()
		r.request(&controller.ExternalConfigChange{Source: "s", Changes: put("if/1", "if/2")})
		r.request(&controller.ExternalConfigChange{Source: "other", Changes: put("if/9")})
		r.request(&controller.ExternalConfigChange{Source: "s", Changes: put("if/2", "if/3"), Replace: true})
		want := put("if/2", "if/3", "if/9")
		r.wantConfig(values(want))
		r.sched.fail = failKey("if/4")
		r.request(&controller.ExternalConfigChange{Source: "s", Changes: put("if/4"), Replace: true, Revert: true})
		r.sched.fail = nil
		r.push(&controller.RequestedResync{Type: controller.UpstreamResync})
		r.wantConfig(values(want))
	})
}

func TestWithdrawnRequestIsNotProcessed(t *testing.T) {
	s := &source{name: "s"}
	withSources(t, []controller.ExternalConfigSource{s}, func(t *testing.T, r *rig) {
		r.started()
		release := r.hold()
		var outcome controller.Outcome
		request := &controller.ExternalRequest{OnOutcome: func(o controller.Outcome) { outcome = o }}
		r.push(&controller.ExternalConfigChange{Source: "s", Changes: put("if/1"), Request: request})
		if !request.Withdraw() {
			t.Error("a request that waits cannot be withdrawn")
		}
		release()
		if outcome.Accepted || !errors.Is(outcome.Err, controller.ErrWithdrawn) {
			t.Errorf("outcome: %+v", outcome)
		}
		r.wantHistory("Database Resync", "hold")
		done := &controller.ExternalRequest{}
		r.push(&controller.ExternalConfigChange{Source: "s", Changes: put("if/2"), Request: done})
		if done.Withdraw() {
			t.Error("a request that was processed can be withdrawn")
		}
		r.wantConfig(values(put("if/2")))
	})
}

func TestClientsOfASourceAreKeptApart(t *testing.T) {
	s := &clients{source: source{name: "s"}, snapshots: map[string]controller.ExternalConfig{"b": put("if/b"), "gone": put("if/gone")}}
	last := &source{name: "last"}
	withSources(t, []controller.ExternalConfigSource{s, last}, func(t *testing.T, r *rig) {
		r.started()
		mtu := func(mtu uint32) controller.ExternalConfig {
			v := iface("1")
			v.Mtu = mtu
			return controller.ExternalConfig{"if/1": v}
		}
		r.request(&controller.ExternalConfigChange{Source: "s/b", Changes: mtu(2)})
		r.request(&controller.ExternalConfigChange{Source: "s/a", Changes: mtu(1)})
		want := put("if/b", "if/gone")
		maps.Copy(want, mtu(2))
		r.wantConfig(values(want))
		if diff := cmp.Diff(want, r.ExternalValues(), protocmp.Transform()); diff != "" {
			t.Errorf("external values (-want +got):\n%s", diff)
		}
		r.push(&controller.ExternalConfigResync{Source: "s/b", Full: true})
		if txn := r.sched.txns[len(r.sched.txns)-1]; txn.Resync != 1 {
			t.Errorf("a full resync of a source is a %v", txn.Resync)
		}
		s.snapshots = map[string]controller.ExternalConfig{"a": mtu(1)}
		r.push(&controller.DBResync{})
		r.wantConfig(values(mtu(1)))
		for _, unknown := range []string{"s/", "last/a", "x"} {
			if o := r.request(&controller.ExternalConfigChange{Source: unknown, Changes: put("if/x")}); o.Accepted || o.Err == nil {
				t.Errorf("source %q is accepted", unknown)
			}
		}
	})
}

func TestRequestsThatAreNeverProcessed(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var outcome controller.Outcome
		r.push(&controller.ExternalConfigResync{Source: "db", Request: &controller.ExternalRequest{OnOutcome: func(o controller.Outcome) { outcome = o }}})
		if err := r.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if outcome.Accepted || !errors.Is(outcome.Err, controller.ErrClosed) {
			t.Errorf("outcome: %+v", outcome)
		}
	})
}
