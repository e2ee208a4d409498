package vswitchtest

import (
	"slices"
	"strings"
	"testing"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// testInterfaceOptions: unsupported interface options are reported and do not prevent the interface
// from working.
func testInterfaceOptions(t *testing.T, c Config) {
	site := c.NewSite(t)
	iface := tap("a", "10.50.0.9/24")
	iface.Ip6Nd = &vpp_interfaces.Interface_IP6ND{AddressAutoconfig: true}
	iface.RxModes = []*vpp_interfaces.Interface_RxMode{{Mode: vpp_interfaces.Interface_RxMode_POLLING, DefaultMode: true}}
	iface.RxPlacements = []*vpp_interfaces.Interface_RxPlacement{{Queue: 1, Worker: 2}}
	options := []string{models.IP6NDKey("a"), models.RxModesKey("a"), models.RxPlacementKey("a", 1)}
	for _, when := range []string{"at first", "after a restart"} {
		a := startAgent(t, site)
		txn := a.NewTransaction()
		txn.Put(models.Key(iface), iface)
		_, _ = txn.Commit(t.Context(), kvscheduler.WithResync(kvscheduler.FullResync))
		status := a.ValueStatus(models.Key(iface))
		if s := status.GetValue(); s.GetState() != pb.ValueState_CONFIGURED {
			t.Errorf("%s: the interface is %v: %s", when, s.GetState(), s.GetError())
		}
		found := 0
		for _, s := range status.GetDerivedValues() {
			switch {
			case !slices.Contains(options, s.GetKey()):
				if s.GetState() != pb.ValueState_CONFIGURED {
					t.Errorf("%s: %s is %v: %s", when, s.GetKey(), s.GetState(), s.GetError())
				}
			case s.GetState() == pb.ValueState_PENDING, s.GetState() == pb.ValueState_MISSING:
				found++ // waits for the link, which is down
			case s.GetState() != pb.ValueState_CONFIGURED && !isReason(s):
				t.Errorf("%s: %s is %v: %s", when, s.GetKey(), s.GetState(), s.GetError())
			default:
				found++
			}
		}
		if found != len(options) {
			t.Errorf("%s: %d options were derived, want %d: %v", when, found, len(options), status)
		}
		a.stop()
	}
}

// isReason reports whether a status is UNIMPLEMENTED with a reason.
func isReason(s *pb.ValueStatus) bool {
	_, reason, unsupported := strings.Cut(s.GetError(), kvscheduler.ErrUnsupported.Error()+": ")
	return s.GetState() == pb.ValueState_UNIMPLEMENTED && unsupported && len(reason) >= 20
}

func testInterfaceTypes(t *testing.T, c Config) {
	const key = "iK2Xs5Jd7nCqTVUQYZJvE7IMQUYDZIYDHoPTYGmqbFk="
	for _, iface := range []*vpp_interfaces.Interface{
		{Type: vpp_interfaces.Interface_MEMIF, Link: &vpp_interfaces.Interface_Memif{Memif: &vpp_interfaces.MemifLink{}}},
		{Type: vpp_interfaces.Interface_SUB_INTERFACE, Link: &vpp_interfaces.Interface_Sub{Sub: &vpp_interfaces.SubInterface{ParentName: "parent"}}},
		{Type: vpp_interfaces.Interface_BOND_INTERFACE, Link: &vpp_interfaces.Interface_Bond{Bond: &vpp_interfaces.BondLink{
			Mode: vpp_interfaces.BondLink_LACP, BondedInterfaces: []*vpp_interfaces.BondLink_BondedInterface{{Name: "parent"}}}}},
		{Type: vpp_interfaces.Interface_GRE_TUNNEL, Link: &vpp_interfaces.Interface_Gre{Gre: &vpp_interfaces.GreLink{
			TunnelType: vpp_interfaces.GreLink_L3, SrcAddr: "10.0.0.1", DstAddr: "10.0.0.2"}}},
		{Type: vpp_interfaces.Interface_IPIP_TUNNEL, Link: &vpp_interfaces.Interface_Ipip{Ipip: &vpp_interfaces.IPIPLink{
			SrcAddr: "10.0.0.1", DstAddr: "10.0.0.2"}}},
		{Type: vpp_interfaces.Interface_GTPU_TUNNEL, Link: &vpp_interfaces.Interface_Gtpu{Gtpu: &vpp_interfaces.GtpuLink{
			SrcAddr: "10.0.0.1", DstAddr: "10.0.0.2"}}},
		{Type: vpp_interfaces.Interface_WIREGUARD_TUNNEL, Link: &vpp_interfaces.Interface_Wireguard{Wireguard: &vpp_interfaces.WireguardLink{
			PrivateKey: key, Port: 51820, SrcAddr: "10.0.0.1"}}},
		{Type: vpp_interfaces.Interface_VMXNET3_INTERFACE, Link: &vpp_interfaces.Interface_VmxNet3{VmxNet3: &vpp_interfaces.VmxNet3Link{}}},
		{Type: vpp_interfaces.Interface_RDMA, Link: &vpp_interfaces.Interface_Rdma{Rdma: &vpp_interfaces.RDMALink{HostIfName: "eth0"}}},
		{Type: vpp_interfaces.Interface_IPSEC_TUNNEL},
	} {
		t.Run(iface.GetType().String(), func(t *testing.T) {
			a := startAgent(t, c.NewSite(t))
			iface.Name, iface.Enabled = "if", true
			txn := a.NewTransaction()
			for _, v := range []*vpp_interfaces.Interface{iface, tap("parent")} {
				txn.Put(models.Key(v), v)
			}
			_, _ = txn.Commit(t.Context())
			s := a.ValueStatus(models.Key(iface)).GetValue()
			if s.GetState() != pb.ValueState_CONFIGURED && !isReason(s) {
				t.Errorf("%v: %s", s.GetState(), s.GetError())
			}
		})
	}
}
