package kernel

import (
	"slices"
	"strings"
	"testing"

	netalloc_pb "github.com/contiv/contiv/api/ligato/netalloc"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch/descriptors"
	"github.com/contiv/contiv/internal/vswitch/netalloc"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// Values that refer to an allocation are configured with its addresses, are removed with the old
// addresses when it changes, and are recognised by a restarted agent.
func TestAllocatedAddressesInTheKernel(t *testing.T) {
	n := newNode(t)
	alloc := &netalloc_pb.IPAllocation{NetworkName: "net", InterfaceName: nic, Address: "10.9.0.7/24", Gw: "10.9.0.1"}
	moved := &netalloc_pb.IPAllocation{NetworkName: "net", InterfaceName: nic, Address: "10.6.0.7/16", Gw: "10.6.0.1"}
	values := []proto.Message{
		&vpp_interfaces.Interface{Name: nic, Type: vpp_interfaces.Interface_DPDK, Enabled: true, IpAddresses: []string{"alloc:net"}},
		&vpp_l3.Route{DstNetwork: "10.77.0.0/16", NextHopAddr: "alloc:net/GW", OutgoingInterface: nic},
		&vpp_l3.ARPEntry{Interface: nic, IpAddress: "alloc:net/" + nic + "/GW", PhysAddress: "02:00:00:00:00:01", Static: true},
	}
	resync := func(values ...proto.Message) (ops []string) {
		t.Helper()
		v := n.Open(t).(*VSwitch)
		defer v.Close()
		s := kvscheduler.New(kvscheduler.Options{})
		defer s.Close()
		check(t, netalloc.Register(s))
		check(t, descriptors.Register(s, v))
		txn := s.NewTransaction()
		for _, v := range values {
			txn.Put(models.Key(v), v)
		}
		seq, err := txn.Commit(t.Context(), kvscheduler.WithResync(kvscheduler.FullResync))
		check(t, err)
		for _, op := range s.RecordedTxn(seq).Executed {
			if !op.NOOP && !strings.Contains(op.Key, "netalloc") {
				ops = append(ops, op.Operation.String()+" "+op.Key)
			}
		}
		return ops
	}
	has := func(want bool, texts ...string) {
		t.Helper()
		out := n.Exec(t, "ip addr show dev "+nic) + n.Exec(t, "ip route") + n.Exec(t, "ip neigh show dev "+nic)
		for _, text := range texts {
			if strings.Contains(out, text) != want {
				t.Errorf("%q is there: %v, want %v\n%s", text, !want, want, out)
			}
		}
	}
	before := []string{"10.9.0.7/24", "10.77.0.0/16 via 10.9.0.1", "10.9.0.1 lladdr 02:00:00:00:00:01"}
	after := []string{"10.6.0.7/16", "10.77.0.0/16 via 10.6.0.1", "10.6.0.1 lladdr 02:00:00:00:00:01"}

	resync(append(values, alloc)...)
	has(true, before...)
	if ops := resync(append(slices.Clone(values), alloc)...); len(ops) > 0 {
		t.Errorf("a restart did %q", ops)
	}
	resync(append(values, moved)...)
	has(true, after...)
	has(false, before...)
	resync(values...)
	has(false, append(before, after...)...)
}
