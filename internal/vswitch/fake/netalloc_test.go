package fake_test

import (
	"slices"
	"strings"
	"testing"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	netalloc_pb "github.com/contiv/contiv/api/ligato/netalloc"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors"
	"github.com/contiv/contiv/internal/vswitch/fake"
	"github.com/contiv/contiv/internal/vswitch/netalloc"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// Interfaces, routes and neighbours with references wait for the allocation, get its addresses,
// follow its changes, and are recognised by a restarted agent.
func TestAllocatedAddresses(t *testing.T) {
	node := fake.NewNetwork().NewNode("node1", vswitch.Capabilities{}, nic)
	alloc := &netalloc_pb.IPAllocation{NetworkName: "net", InterfaceName: nic, Address: "10.9.0.7/24", Gw: "10.9.0.1"}
	iface := &vpp_interfaces.Interface{
		Name: nic, Type: vpp_interfaces.Interface_DPDK, Enabled: true, IpAddresses: []string{"alloc:net", "10.8.0.1/24"},
	}
	route := &vpp_l3.Route{DstNetwork: "10.77.0.0/16", NextHopAddr: "alloc:net/GW", OutgoingInterface: nic}
	toNet := &vpp_l3.Route{DstNetwork: "alloc:net/" + nic, NextHopAddr: "10.8.0.9", OutgoingInterface: nic}
	arp := &vpp_l3.ARPEntry{Interface: nic, IpAddress: "alloc:net/" + nic + "/GW", PhysAddress: "02:00:00:00:00:01", Static: true}
	values := []proto.Message{iface, route, toNet, arp}
	var s *kvscheduler.Scheduler
	var vs *fake.VSwitch
	open := func() {
		t.Helper()
		vs, s = node.Open(), kvscheduler.New(kvscheduler.Options{})
		if err := netalloc.Register(s); err != nil {
			t.Fatal(err)
		}
		if err := descriptors.Register(s, vs); err != nil {
			t.Fatal(err)
		}
	}
	closeAll := func() { s.Close(); vs.Close() }
	open()
	defer func() { closeAll() }()
	commit := func(opts []kvscheduler.TxnOption, values ...proto.Message) (ops []string) {
		t.Helper()
		txn := s.NewTransaction()
		for _, v := range values {
			txn.Put(models.Key(v), v)
		}
		seq, err := txn.Commit(t.Context(), opts...)
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range s.RecordedTxn(seq).Executed {
			if !op.NOOP {
				ops = append(ops, op.Operation.String()+" "+op.Key)
			}
		}
		return ops
	}
	state := func(want pb.ValueState, values ...proto.Message) {
		t.Helper()
		for _, v := range values {
			if got := s.ValueStatus(models.Key(v)).GetValue(); got.GetState() != want {
				t.Errorf("%s is %v %s %v, want %v", got.GetKey(), got.GetState(), got.GetError(), got.GetDetails(), want)
			}
		}
	}
	has := func(want ...string) {
		t.Helper()
		var got []string
		interfaces, err := vs.Interfaces().List(t.Context(), nil)
		routes, routeErr := vs.Routes().List(t.Context(), nil)
		neighbours, arpErr := vs.Neighbours().List(t.Context(), nil)
		if err != nil || routeErr != nil || arpErr != nil {
			t.Fatal(err, routeErr, arpErr)
		}
		for _, v := range interfaces {
			got = append(got, v.GetIpAddresses()...)
		}
		for _, v := range routes {
			got = append(got, v.GetDstNetwork()+" via "+v.GetNextHopAddr())
		}
		for _, v := range neighbours {
			got = append(got, "neighbour "+v.GetIpAddress())
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("the vswitch has %q, want %q", got, want)
		}
	}

	commit(nil, values...)
	state(pb.ValueState_CONFIGURED, iface)
	state(pb.ValueState_PENDING, route, toNet, arp)
	has("10.8.0.1/24")

	commit(nil, alloc)
	state(pb.ValueState_CONFIGURED, append(values, alloc)...)
	has("10.8.0.1/24", "10.9.0.7/24", "10.77.0.0/16 via 10.9.0.1", "10.9.0.0/24 via 10.8.0.9", "neighbour 10.9.0.1")
	if got := s.ValueStatus(models.Key(iface)).GetDerivedValues(); !slices.ContainsFunc(got, func(d *pb.ValueStatus) bool {
		return d.GetKey() == "vpp/interface/"+nic+"/address/alloc_ref/alloc:net" && d.GetState() == pb.ValueState_CONFIGURED
	}) {
		t.Errorf("derived: %v", got)
	}

	moved := proto.CloneOf(alloc)
	moved.Address, moved.Gw = "10.6.0.7/16", "10.6.0.1"
	commit(nil, moved)
	state(pb.ValueState_CONFIGURED, append(values, moved)...)
	movedState := []string{"10.8.0.1/24", "10.6.0.7/16", "10.77.0.0/16 via 10.6.0.1", "10.6.0.0/16 via 10.8.0.9", "neighbour 10.6.0.1"}
	has(movedState...)

	resync := []kvscheduler.TxnOption{kvscheduler.WithResync(kvscheduler.FullResync)}
	if ops := commit(resync, append(values, moved)...); len(ops) > 0 {
		t.Errorf("a resync did %q", ops)
	}
	closeAll()
	open()
	// A restart cannot find the allocation itself.
	ops := commit(resync, append(values, moved)...)
	ops = slices.DeleteFunc(ops, func(op string) bool { return strings.Contains(op, "netalloc") })
	if len(ops) > 0 {
		t.Errorf("a resync after a restart did %q", ops)
	}
	state(pb.ValueState_CONFIGURED, append(values, moved)...)
	has(movedState...)

	// The resync applies changes made while no agent ran.
	closeAll()
	open()
	commit(resync, append(values, alloc)...)
	state(pb.ValueState_CONFIGURED, append(values, alloc)...)
	has("10.8.0.1/24", "10.9.0.7/24", "10.77.0.0/16 via 10.9.0.1", "10.9.0.0/24 via 10.8.0.9", "neighbour 10.9.0.1")
	// The resync applies a changed allocation.
	commit(resync, append(values, moved)...)
	has(movedState...)

	txn := s.NewTransaction()
	txn.Delete(models.Key(alloc))
	if _, err := txn.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	state(pb.ValueState_PENDING, route, toNet, arp)
	has("10.8.0.1/24")
}
