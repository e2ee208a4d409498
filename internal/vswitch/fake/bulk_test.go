package fake_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors"
	"github.com/contiv/contiv/internal/vswitch/fake"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

type bulkVSwitch struct {
	*fake.VSwitch
	calls []string
}

type bulkRoutes struct {
	vswitch.Routes
	v *bulkVSwitch
}

func (v *bulkVSwitch) Routes() vswitch.Routes { return bulkRoutes{v.VSwitch.Routes(), v} }

func (r bulkRoutes) CreateAll(ctx context.Context, all []*vpp_l3.Route) []error {
	r.v.calls = append(r.v.calls, fmt.Sprint("create ", len(all)))
	errs := make([]error, len(all))
	for i, route := range all {
		if errs[i] = r.Create(ctx, route); route.GetDstNetwork() == "10.99.0.3/32" {
			errs[i] = errors.New("refused")
		}
	}
	return errs
}

func (r bulkRoutes) DeleteAll(ctx context.Context, all []*vpp_l3.Route) []error {
	r.v.calls = append(r.v.calls, fmt.Sprint("delete ", len(all)))
	errs := make([]error, len(all))
	for i, route := range all {
		errs[i] = r.Delete(ctx, route)
	}
	return errs
}

func TestManyValuesAreHandedOverAtOnce(t *testing.T) {
	v := &bulkVSwitch{VSwitch: fake.NewNetwork().NewNode("n", vswitch.Capabilities{}, "eth0").Open()}
	s := kvscheduler.New(kvscheduler.Options{})
	t.Cleanup(func() { s.Close() })
	if err := descriptors.Register(s, v); err != nil {
		t.Fatal(err)
	}
	txn := s.NewTransaction()
	nic := &vpp_interfaces.Interface{Name: "eth0", Type: vpp_interfaces.Interface_DPDK, Enabled: true}
	txn.Put(models.Key(nic), nic)
	var keys []string
	for i := range 10 {
		r := &vpp_l3.Route{DstNetwork: fmt.Sprintf("10.99.0.%d/32", i), OutgoingInterface: "eth0"}
		keys = append(keys, models.Key(r))
		txn.Put(models.Key(r), r)
	}
	_, err := txn.Commit(t.Context(), kvscheduler.WithResync(kvscheduler.FullResync))
	if err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("the transaction ended with %v, want the error of one value", err)
	}
	for i, key := range keys {
		want := pb.ValueState_CONFIGURED
		if i == 3 {
			want = pb.ValueState_FAILED
		}
		if state := s.ValueStatus(key).GetValue().GetState(); state != want {
			t.Errorf("%s is %v, want %v", key, state, want)
		}
	}
	txn = s.NewTransaction()
	for _, key := range keys {
		txn.Delete(key)
	}
	_, _ = txn.Commit(t.Context())
	if calls := strings.Join(v.calls, ", "); !strings.HasPrefix(calls, "create 10") || !strings.Contains(calls, "delete") {
		t.Errorf("calls: %s", calls)
	}
}
