package vpp

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.fd.io/govpp/binapi/acl"
	"go.fd.io/govpp/binapi/l2"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	interfaces_api "go.fd.io/govpp/binapi/interface"

	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"go.fd.io/govpp/api"
	"google.golang.org/protobuf/proto"
)

func faultSubjects() map[string][]proto.Message {
	numbered := func(name, addr string) *vpp_interfaces.Interface {
		iface := loopback(name)
		iface.IpAddresses = []string{addr}
		return iface
	}
	a, b := numbered("a", "10.1.0.1/24"), numbered("b", "10.2.0.1/24")
	unnumbered := loopback("u")
	unnumbered.Unnumbered = &vpp_interfaces.Interface_Unnumbered{InterfaceWithIp: "a"}
	lan := bridgeDomain("lan")
	lan.Interfaces = []*vpp_l2.BridgeDomain_Interface{{Name: "p"}, {Name: "q"}}
	return map[string][]proto.Message{
		"interfaces": {a, b, unnumbered},
		"l2": {loopback("p"), loopback("q"), lan,
			&vpp_l2.FIBEntry{BridgeDomain: "lan", PhysAddress: "02:00:00:00:00:01", OutgoingInterface: "p", StaticConfig: true}, &vpp_interfaces.Span{InterfaceFrom: "p", InterfaceTo: "q", Direction: vpp_interfaces.Span_BOTH}},
		"l3": {a, b, route("10.9.0.0/16", "10.1.0.9", "a"), route("10.9.0.0/16", "10.2.0.9", "b"), &vpp_l3.VrfTable{Id: 3, Label: "three"},
			&vpp_l3.ARPEntry{Interface: "a", IpAddress: "10.1.0.9", PhysAddress: "02:00:00:00:00:09", Static: true}},
		"nat": {a, b, &vpp_nat.Nat44Global{Forwarding: true}, &vpp_nat.Nat44Interface{Name: "a", NatOutside: true, OutputFeature: true},
			&vpp_nat.Nat44AddressPool{FirstIp: "10.3.0.1", VrfId: vswitch.AllVRFs},
			dnatValue("web", service("10.96.0.1", 80, 1, 2), service("10.96.0.1", 443, 1)), dnatValue("dns", service("10.96.0.2", 53, 3))},
		"acl": {a, b, &vpp_acl.ACL{Name: "in", Rules: []*vpp_acl.ACL_Rule{permitAll()}, Interfaces: &vpp_acl.ACL_Interfaces{Ingress: []string{"a", "b"}}},
			&vpp_acl.ACL{Name: "out", Rules: []*vpp_acl.ACL_Rule{permitAll()}, Interfaces: &vpp_acl.ACL_Interfaces{Egress: []string{"a"}}}},
	}
}

// After a fault at any request, one resync without faults reaches the requested state, and a second
// one has nothing to do.
func TestFaultsAtEveryRequest(t *testing.T) {
	for name, values := range faultSubjects() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServerSite(t)
			v := s.Open(t).(*VSwitch)
			k := kvscheduler.New(kvscheduler.Options{Logger: silentLog})
			t.Cleanup(func() { k.Close(); v.Close() })
			must(t, descriptors.Register(k, v))
			var requests []string
			s.Inject(func(_ int, req api.Message) vpptest.Fault {
				requests = append(requests, req.GetMessageName())
				return vpptest.NoFault
			})
			fullResync(t, k, values)
			n := s.Requests()
			if n < len(values) {
				t.Fatalf("%d requests for %d values", n, len(values))
			}
			for fault := vpptest.Refusal; fault <= vpptest.LateAnswer; fault++ {
				hits := 0
				for at := range n {
					// A resync reads everything: only one in readStride read requests gets a fault,
					// a different one each time.
					if isQuestion(requests[at]) && at%readStride != int(fault) {
						continue
					}
					s.Inject(nil)
					fullResync(t, k, nil)
					var hit string
					s.Inject(func(n int, req api.Message) vpptest.Fault {
						if n != at {
							return vpptest.NoFault
						}
						hit = req.GetMessageName()
						return fault
					})
					txn := k.NewTransaction()
					for _, value := range values {
						txn.Put(models.Key(value), value)
					}
					_, _ = txn.Commit(t.Context(), kvscheduler.WithResync(kvscheduler.FullResync))
					s.Inject(nil)
					what := fmt.Sprintf("%v at request %d, %s", fault, at, hit)
					if hit != "" {
						hits++
					}
					resyncWhenConnected(t, k, values)
					if ops := fullResync(t, k, values); len(ops) > 0 {
						t.Errorf("after %s: the second resync executed %v", what, ops)
					}
					for _, value := range values {
						if status := k.ValueStatus(models.Key(value)); status.GetValue().GetState() != pb.ValueState_CONFIGURED {
							t.Errorf("after %s: %s is %v: %s", what, models.Key(value), status.GetValue().GetState(), status.GetValue().GetError())
						}
					}
				}
				if hits < len(values) {
					t.Errorf("%v: %d requests met it, for %d values", fault, hits, len(values))
				}
			}
		})
	}
}

// A dry run of a resync and reading interface states change nothing in VPP, even if much differs.
func TestReadersChangeNothing(t *testing.T) {
	for name, values := range faultSubjects() {
		t.Run(name, func(t *testing.T) {
			s := newServerSite(t)
			v := s.Open(t).(*VSwitch)
			k := kvscheduler.New(kvscheduler.Options{Logger: silentLog})
			t.Cleanup(func() { k.Close(); v.Close() })
			must(t, descriptors.Register(k, v))
			fullResync(t, k, values)
			// A foreign client sets interfaces down and detaches them.
			for _, value := range values {
				if iface, ok := value.(*vpp_interfaces.Interface); ok {
					i := s.index(t, iface.GetName())
					s.Do(&interfaces_api.SwInterfaceSetFlags{SwIfIndex: i})
					s.Do(&l2.SwInterfaceSetL2Bridge{RxSwIfIndex: i})
					s.Do(&acl.ACLInterfaceSetACLList{SwIfIndex: i})
				}
			}
			var written []string
			s.Inject(func(_ int, req api.Message) vpptest.Fault {
				if !isQuestion(req.GetMessageName()) {
					written = append(written, req.GetMessageName())
				}
				return vpptest.NoFault
			})
			txn := k.NewTransaction()
			for _, value := range values {
				txn.Put(models.Key(value), value)
			}
			planned, err := txn.Plan(t.Context(), kvscheduler.WithResync(kvscheduler.FullResync))
			must(t, err)
			_, err = v.States().List(t.Context())
			must(t, err)
			if s.Requests() < 20 {
				t.Errorf("only %d requests: the plan (%d operations) was made without reading", s.Requests(), len(planned))
			}
			if len(written) > 0 {
				t.Errorf("readers sent %v", written)
			}
			s.Inject(nil)
			if ops := fullResync(t, k, values); len(ops) == 0 {
				t.Error("nothing had changed")
			}
		})
	}
}

const readStride = 11

func isQuestion(request string) bool {
	for _, part := range []string{"_dump", "_get", "classify_table_ids", "_lookup", "show_", "cli_inband"} {
		if strings.Contains(request, part) {
			return true
		}
	}
	return false
}

// resyncWhenConnected repeats a full resync until it succeeds, because the session may not have
// noticed the loss of the connection or reconnected yet.
func resyncWhenConnected(t *testing.T, k *kvscheduler.Scheduler, values []proto.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		txn := k.NewTransaction()
		for _, value := range values {
			txn.Put(models.Key(value), value)
		}
		_, err := txn.Commit(ctx, kvscheduler.WithResync(kvscheduler.FullResync))
		if err == nil {
			return
		}
		if session.Sleep(ctx, 5*time.Millisecond) != nil {
			t.Fatal(err)
		}
	}
}

// The next resync makes up for lost events; later events arrive.
func TestLostEvents(t *testing.T) {
	s := newServerSite(t)
	k, values := scheduled(t, s)
	tap := vswitchtest.Topology{Node: 1, NIC: s.NIC(), Pods: 2}.Tap(1)
	s.LoseEvents(true)
	s.Do(&interfaces_api.SwInterfaceSetFlags{SwIfIndex: s.index(t, tap)})
	s.LoseEvents(false)
	if ops := fullResync(t, k, values); len(ops) != 1 {
		t.Errorf("the resync after a lost event executed %v, want one update", ops)
	}
	if ops := fullResync(t, k, values); len(ops) > 0 {
		t.Errorf("the second resync executed %v", ops)
	}
}
