package controller_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// newKVScheduler returns a real scheduler for interfaces. The address 6.6.6.6/24 fails.
func newKVScheduler(t *testing.T) controller.Scheduler {
	t.Helper()
	s := kvscheduler.New(kvscheduler.Options{})
	t.Cleanup(func() { s.Close() })
	type iface = *vpp_interfaces.Interface
	err := kvscheduler.Register(s, kvscheduler.Descriptor[iface, kvscheduler.NoMetadata]{
		Name: "interface", Keys: kvscheduler.KeySpace{Prefix: models.VPPInterface.KeyPrefix()}, NB: true,
		Create: func(context.Context, string, iface) (kvscheduler.NoMetadata, error) {
			return kvscheduler.NoMetadata{}, nil
		},
		Delete: func(context.Context, string, iface, kvscheduler.NoMetadata) error { return nil },
		DerivedValues: func(_ string, i iface) (derived []kvscheduler.KeyValue) {
			for _, a := range i.IpAddresses {
				derived = append(derived, kvscheduler.KeyValue{Key: models.VPPInterfaceAddressKey(i.Name, models.AddrStatic, a), Value: &emptypb.Empty{}})
			}
			return derived
		},
	})
	if err == nil {
		err = kvscheduler.Register(s, kvscheduler.Descriptor[proto.Message, kvscheduler.NoMetadata]{
			Name: "address", Keys: kvscheduler.KeySpace{Prefix: "vpp/interface/"},
			Create: func(_ context.Context, key string, _ proto.Message) (kvscheduler.NoMetadata, error) {
				if key == models.VPPInterfaceAddressKey("bad", models.AddrStatic, "6.6.6.6/24") {
					return kvscheduler.NoMetadata{}, errors.New("address is refused")
				}
				return kvscheduler.NoMetadata{}, nil
			},
			Delete: func(context.Context, string, proto.Message, kvscheduler.NoMetadata) error { return nil },
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return controller.NewScheduler(s)
}

// Repeated failures, including of derived values, do not count as changes; other values and late
// successes do.
func TestChangesOfTheKVScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newKVScheduler(t)
		bad := models.VPPInterfaceKey("bad")
		put := func(key string, value proto.Message) {
			s.Commit(t.Context(), controller.SchedulerTxn{Values: []kvscheduler.KeyValue{{Key: key, Value: value}}})
		}
		put(bad, iface("bad", "6.6.6.6/24"))
		for _, c := range []struct {
			what  string
			key   string
			value proto.Message
			is    bool
		}{
			{"it fails again", bad, iface("bad", "6.6.6.6/24"), false},
			{"it fails with another address", bad, iface("bad", "6.6.6.6/24", "7.7.7.7/24"), false},
			{"another value comes", models.VPPInterfaceKey("good"), iface("good", "1.1.1.1/24"), true},
			{"nothing changes", models.VPPInterfaceKey("good"), iface("good", "1.1.1.1/24"), false},
			{"another value goes", models.VPPInterfaceKey("good"), nil, true},
			{"it succeeds", bad, iface("bad", "7.7.7.7/24"), true},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			received := make(chan error, 1)
			go func() { received <- s.(interface{ AwaitChange(context.Context) error }).AwaitChange(ctx) }()
			synctest.Wait()
			put(c.key, c.value)
			synctest.Wait()
			cancel()
			if is := <-received == nil; is != c.is {
				t.Errorf("%s: a change that may help: %v", c.what, is)
			}
		}
	})
}

func TestCommitOfTheKVScheduler(t *testing.T) {
	s, ctx := newKVScheduler(t), context.Background()
	commit := func(txn controller.SchedulerTxn) (controller.TxnResult, error) {
		t.Helper()
		return s.Commit(ctx, txn)
	}
	if _, err := commit(controller.SchedulerTxn{Resync: kvscheduler.FullResync}); err != nil {
		t.Fatal(err)
	}
	good, bad := models.VPPInterfaceKey("good"), models.VPPInterfaceKey("bad")
	result, err := commit(controller.SchedulerTxn{Values: []kvscheduler.KeyValue{{Key: good, Value: iface("good", "1.1.1.1/24")}}})
	if err != nil || result.Operations != 2 || result.FailedKeys != nil {
		t.Errorf("got %+v, %v", result, err)
	}
	result, err = commit(controller.SchedulerTxn{Values: []kvscheduler.KeyValue{
		{Key: bad, Value: iface("bad", "6.6.6.6/24")},
		{Key: good, Value: iface("good", "1.1.1.2/24")},
	}})
	if err == nil || !slices.Equal(result.FailedKeys, []string{bad}) {
		t.Errorf("a failed derived value must fail its base value: got %+v, %v", result, err)
	}
	_, err = commit(controller.SchedulerTxn{Revert: true, Values: []kvscheduler.KeyValue{{Key: bad, Value: iface("bad", "6.6.6.6/24", "7.7.7.7/24")}, {Key: good}}})
	if txnError, ok := errors.AsType[*kvscheduler.TransactionError](err); !ok || !txnError.Reverted {
		t.Errorf("got %v", err)
	}
	result, err = commit(controller.SchedulerTxn{Revert: true, Resync: kvscheduler.FullResync})
	if err == nil || result.SeqNum != kvscheduler.NoSeqNum {
		t.Errorf("a transaction that is not executed: got %+v, %v", result, err)
	}
}
