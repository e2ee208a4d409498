package vpp

import (
	"os"
	"strings"
	"testing"
	"time"

	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch/descriptors"
	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"go.fd.io/govpp/api"
	"google.golang.org/protobuf/proto"
)

// onEachSite runs a test on a simulated VPP and, if available, a real one.
func onEachSite(t *testing.T, test func(t *testing.T, s vswitchtest.Site, vpp vpptest.VPP)) {
	t.Helper()
	t.Run("server", func(t *testing.T) {
		s := newServerSite(t)
		test(t, s, s)
	})
	t.Run("process", func(t *testing.T) {
		if os.Getenv(vpptest.BinaryVariable) == "" {
			t.Skip("needs VPP 25.10: make test-vpp " + vpptest.BinaryVariable + "=/usr/bin/vpp")
		}
		s := newProcessSite(t)
		test(t, s, s)
	})
}

// scheduled returns a scheduler that receives drift reports and has configured a node.
func scheduled(t testing.TB, s vswitchtest.Site) (*kvscheduler.Scheduler, []proto.Message) {
	t.Helper()
	v := s.Open(t)
	k := kvscheduler.New(kvscheduler.Options{})
	t.Cleanup(func() { k.Close(); v.Close() })
	must(t, descriptors.Register(k, v))
	must(t, v.Watch(t.Context(), func(reason string, keys ...string) { _ = k.ReportDrift(reason, keys...) }))
	values := vswitchtest.Topology{Node: 1, NIC: s.NIC(), Pods: 2}.Values()
	if n := len(fullResync(t, k, values)); n == 0 {
		t.Fatal("nothing was executed")
	}
	return k, values
}

// fullResync returns the executed operations.
func fullResync(t testing.TB, k *kvscheduler.Scheduler, values []proto.Message) (ops []string) {
	t.Helper()
	txn := k.NewTransaction()
	for _, v := range values {
		txn.Put(models.Key(v), v)
	}
	seq, err := txn.Commit(t.Context(), kvscheduler.WithResync(kvscheduler.FullResync))
	must(t, err)
	return executed(k.RecordedTxn(seq))
}

func executed(txn *kvscheduler.RecordedTxn) (ops []string) {
	for _, op := range txn.Executed {
		if !op.NOOP {
			ops = append(ops, op.Operation.String()+" "+op.Key)
		}
	}
	return ops
}

func TestWhatVPPDoesNotTellOfIsFoundByAResync(t *testing.T) {
	onEachSite(t, func(t *testing.T, s vswitchtest.Site, vpp vpptest.VPP) {
		k, values := scheduled(t, s)
		somebody := open(t, vpp)
		must(t,
			somebody.Routes().Delete(t.Context(), &vpp_l3.Route{DstNetwork: "10.1.2.0/24", NextHopAddr: "192.168.30.2", OutgoingInterface: vswitchtest.BVI}),
			somebody.Routes().Create(t.Context(), &vpp_l3.Route{Type: vpp_l3.Route_DROP, DstNetwork: "10.250.0.0/16"}),
			somebody.FIB().Delete(t.Context(), &vpp_l2.FIBEntry{BridgeDomain: vswitchtest.Bridge, PhysAddress: "12:2b:00:00:00:02"}),
			somebody.Bridges().Unbind(t.Context(), vswitchtest.Bridge, &vpp_l2.BridgeDomain_Interface{Name: "vxlan-default-3"}),
		)
		ops := strings.Join(fullResync(t, k, values), "\n")
		for _, want := range []string{"dst/10.1.2.0/24", "DELETE config/vpp/v2/route/vrf/0/dst/10.250.0.0/16", "mac/12:2b:00:00:00:02", "vpp/bd/vxlanBD/interface/vxlan-default-3"} {
			if !strings.Contains(ops, want) {
				t.Errorf("%s was not repaired:\n%s", want, ops)
			}
		}
		if ops := fullResync(t, k, values); len(ops) > 0 {
			t.Errorf("the second resync executed %v", ops)
		}
	})
}

func TestARestartedVPPGetsEverythingAgain(t *testing.T) {
	onEachSite(t, func(t *testing.T, s vswitchtest.Site, vpp vpptest.VPP) {
		k, values := scheduled(t, s)
		start := time.Now()
		vpp.Restart()
		up := time.Since(start)
		var restored *kvscheduler.RecordedTxn
		for deadline := start.Add(20 * time.Second); restored == nil; time.Sleep(10 * time.Millisecond) {
			for _, txn := range k.History(start, time.Time{}) {
				if strings.Contains(txn.Description, "restarted") {
					restored = txn
				}
			}
			if time.Now().After(deadline) {
				t.Fatal("nothing restored it")
			}
		}
		t.Logf("VPP was back after %v; the rest, with %d operations, took %v", up, len(executed(restored)), time.Since(start)-up)
		if ops := fullResync(t, k, values); len(ops) > 0 {
			t.Errorf("a resync after that executed %v", ops)
		}
	})
}

func TestErrorsInTheMiddleOfATransaction(t *testing.T) {
	s := newServerSite(t)
	v := s.Open(t)
	k := kvscheduler.New(kvscheduler.Options{})
	t.Cleanup(func() { k.Close(); v.Close() })
	must(t, descriptors.Register(k, v))
	values := vswitchtest.Topology{Node: 1, NIC: s.NIC(), Pods: 2}.Values()
	for _, request := range []string{"ip_route_add_del_v2", "ip_neighbor_add_del", "l2fib_add_del", "sw_interface_set_l2_bridge", "bridge_domain_add_del_v2"} {
		s.Refuse(request, api.UNSPECIFIED)
		txn := k.NewTransaction()
		for _, value := range values {
			txn.Put(models.Key(value), value)
		}
		_, err := txn.Commit(t.Context(), kvscheduler.WithResync(kvscheduler.FullResync))
		if err == nil || !strings.Contains(err.Error(), request) {
			t.Errorf("%s was refused: got %v", request, err)
		}
		s.Refuse(request, 0)
		fullResync(t, k, values)
		if ops := fullResync(t, k, values); len(ops) > 0 {
			t.Errorf("after %s was refused, a second resync executed %v", request, ops)
		}
		fullResync(t, k, nil)
	}
}
