package vswitch

import (
	"context"
	"fmt"
	"testing"

	kvs "github.com/contiv/contiv/api/ligato/kvscheduler"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/types/known/emptypb"
)

// A scheduler that has no place for more learns of all links nevertheless.
func TestLinkStatesThatTheSchedulerHasNoPlaceFor(t *testing.T) {
	s := kvscheduler.New(kvscheduler.Options{})
	defer s.Close()
	busy, free := make(chan struct{}), make(chan struct{})
	err := kvscheduler.Register(s, kvscheduler.Descriptor[*emptypb.Empty, noMeta]{
		Name: "slow", Keys: kvscheduler.KeySpace{Prefix: "slow/"}, NB: true,
		Create: func(context.Context, string, *emptypb.Empty) (noMeta, error) {
			close(busy)
			<-free
			return noMeta{}, nil
		},
		Delete: noopDelete[*emptypb.Empty],
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := kvscheduler.Register(s, linkStateDescriptor(nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.NewTransaction().Put("slow/x", empty()).Commit(t.Context(), kvscheduler.WithoutBlocking()); err != nil {
		t.Fatal(err)
	}
	<-busy

	const links = 1000
	observe := notifyLinkStates(s)
	for i := range links {
		for _, status := range []vpp_interfaces.InterfaceState_Status{vpp_interfaces.InterfaceState_DOWN, vpp_interfaces.InterfaceState_UP} {
			observe(&vpp_interfaces.InterfaceState{Name: fmt.Sprint("if", i), OperStatus: status})
		}
	}
	close(free)
	for i := range links {
		up, down := models.LinkStateKey(fmt.Sprint("if", i), true), models.LinkStateKey(fmt.Sprint("if", i), false)
		for s.ValueStatus(up).GetValue().GetState() != kvs.ValueState_OBTAINED {
			if err := s.Barrier(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if state := s.ValueStatus(down).GetValue().GetState(); state != kvs.ValueState_NONEXISTENT {
			t.Errorf("%s is %v", down, state)
		}
	}
}
