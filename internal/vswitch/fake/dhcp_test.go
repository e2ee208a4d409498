package fake_test

import (
	"testing"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors"
	"github.com/contiv/contiv/internal/vswitch/fake"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// A lease derives its address, which makes dependent values available.
func TestLeaseIsObtained(t *testing.T) {
	node := fake.NewNetwork().NewNode("node1", vswitch.Capabilities{}, nic)
	vs := node.Open()
	s := kvscheduler.New(kvscheduler.Options{})
	defer vs.Close()
	defer s.Close()
	if err := descriptors.Register(s, vs); err != nil {
		t.Fatal(err)
	}
	if err := node.Lease(nic, &vpp_interfaces.DHCPLease{}); err == nil {
		t.Error("a lease without client")
	}
	commit := func(dhcp bool) {
		t.Helper()
		iface := &vpp_interfaces.Interface{Name: nic, Type: vpp_interfaces.Interface_DPDK, Enabled: true, SetDhcpClient: dhcp}
		txn := s.NewTransaction()
		txn.Put(models.Key(iface), iface)
		if _, err := txn.Commit(t.Context(), kvscheduler.WithResync(kvscheduler.FullResync)); err != nil {
			t.Fatal(err)
		}
	}
	address := models.VPPInterfaceAddressKey(nic, models.AddrFromDHCP, "10.9.0.7/24")
	want := func(when, key string, want pb.ValueState) {
		t.Helper()
		if err := s.Barrier(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, v := range s.Snapshot().Values() {
			if v.Key == key {
				if v.State != want {
					t.Errorf("%s: %s is %v, want %v", when, key, v.State, want)
				}
				return
			}
		}
		if want != pb.ValueState_NONEXISTENT {
			t.Errorf("%s: %s is missing, want %v", when, key, want)
		}
	}

	commit(true)
	want("without lease", models.VPPInterfaceHasAddressKey(nic), pb.ValueState_PENDING)
	if err := node.Lease(nic, &vpp_interfaces.DHCPLease{InterfaceName: nic, HostIpAddress: "10.9.0.7/24", RouterIpAddress: "10.9.0.1/24"}); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"with lease", "after a resync"} {
		want(when, models.DHCPLeaseKey(nic), pb.ValueState_OBTAINED)
		want(when, address, pb.ValueState_OBTAINED)
		want(when, models.VPPInterfaceHasAddressKey(nic), pb.ValueState_CONFIGURED)
		if lease, ok := s.Metadata(vswitch.DHCPLeaseDescriptor, nic); !ok || lease.(*vpp_interfaces.DHCPLease).GetHostIpAddress() != "10.9.0.7/24" {
			t.Errorf("%s: the metadata is %v, %v", when, lease, ok)
		}
		commit(true)
	}
	if err := node.Lease(nic, nil); err != nil {
		t.Fatal(err)
	}
	want("lease lost", models.DHCPLeaseKey(nic), pb.ValueState_NONEXISTENT)
	want("lease lost", address, pb.ValueState_NONEXISTENT)
	want("lease lost", models.VPPInterfaceHasAddressKey(nic), pb.ValueState_PENDING)

	if err := node.Lease(nic, &vpp_interfaces.DHCPLease{InterfaceName: nic, HostIpAddress: "10.9.0.8/24"}); err != nil {
		t.Fatal(err)
	}
	commit(false)
	want("without client", models.DHCPLeaseKey(nic), pb.ValueState_NONEXISTENT)
	want("without client", models.VPPInterfaceHasAddressKey(nic), pb.ValueState_NONEXISTENT)
}
