package vpp

import (
	"bytes"
	"encoding/base64"
	"slices"
	"testing"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	vpp_abf "github.com/contiv/contiv/api/ligato/vpp/abf"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_punt "github.com/contiv/contiv/api/ligato/vpp/punt"
	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	vpp_stn "github.com/contiv/contiv/api/ligato/vpp/stn"
	vpp_wireguard "github.com/contiv/contiv/api/ligato/vpp/wireguard"
	"github.com/contiv/contiv/internal/vswitch/descriptors"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// agent is a scheduler on VPP.
type agent struct {
	*kvscheduler.Scheduler
	t *testing.T
}

func startAgent(t *testing.T, v *VSwitch) agent {
	t.Helper()
	s := kvscheduler.New(kvscheduler.Options{})
	t.Cleanup(func() { s.Close() })
	if err := descriptors.Register(s, v); err != nil {
		t.Fatal(err)
	}
	return agent{s, t}
}

// commit commits values, as a full resync or as additional values, and returns the operations.
func (a agent) commit(resync bool, values ...proto.Message) []kvscheduler.RecordedOp {
	a.t.Helper()
	txn := a.NewTransaction()
	for _, v := range values {
		txn.Put(models.Key(v), v)
	}
	var options []kvscheduler.TxnOption
	if resync {
		options = append(options, kvscheduler.WithResync(kvscheduler.FullResync))
	}
	seq, err := txn.Commit(a.t.Context(), options...)
	if err != nil {
		a.t.Error(err)
	}
	return slices.DeleteFunc(slices.Clone(a.RecordedTxn(seq).Executed), func(op kvscheduler.RecordedOp) bool { return op.NOOP })
}

func (a agent) wantConfigured(values ...proto.Message) {
	a.t.Helper()
	for _, v := range values {
		status := a.ValueStatus(models.Key(v))
		for _, s := range append([]*pb.ValueStatus{status.GetValue()}, status.GetDerivedValues()...) {
			if s.GetState() != pb.ValueState_CONFIGURED {
				a.t.Errorf("%s is %v: %s %v", s.GetKey(), s.GetState(), s.GetError(), s.GetDetails())
			}
		}
	}
}

func wantNothing(t *testing.T, when string, ops []kvscheduler.RecordedOp) {
	t.Helper()
	for _, op := range ops {
		t.Errorf("%s: %v %s\n  was %v\n  now %v\n  error %v", when, op.Operation, op.Key, op.PrevValue, op.NewValue, op.NewErr)
	}
}

// Values of all extras and of segment routing, in an order in which none can be created at first,
// are created, read back unchanged, and deleted.
func TestExtrasThroughTheScheduler(t *testing.T) {
	key := func(b byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32)) }
	inVRF := &vpp_srv6.LocalSID{Sid: "fc00::6", InstallationVrfId: 5, EndFunction: &vpp_srv6.LocalSID_EndFunctionDt6{
		EndFunctionDt6: &vpp_srv6.LocalSID_EndDT6{VrfId: 5}}}
	abf := &vpp_abf.ABF{
		Index: 7, AclName: "web", AttachedInterfaces: []*vpp_abf.ABF_AttachedInterface{{InputInterface: "in"}},
		ForwardingPaths: []*vpp_abf.ABF_ForwardingPath{{NextHopIp: "10.1.0.1", InterfaceName: "out"}, {NextHopIp: "10.1.0.2", InterfaceName: "out", Weight: 2}},
	}
	dependent := []proto.Message{
		abf,
		&vpp_stn.Rule{IpAddress: "10.0.0.1", Interface: "in"},
		&vpp_punt.IPRedirect{L3Protocol: vpp_punt.L3Protocol_ALL, RxInterface: "in", TxInterface: "out", NextHop: "10.1.0.1"},
		&vpp_l3.TeibEntry{Interface: "out", PeerAddr: "10.1.0.7", NextHopAddr: "192.0.2.7"},
		&vpp_wireguard.Peer{WgIfName: "wg", PublicKey: key(2), Endpoint: "192.0.2.2", Port: 51820, AllowedIps: []string{"10.7.0.0/16"}},
		&vpp_l3.DHCPProxy{SourceIpAddress: "10.0.0.1", RxVrfId: 5, Servers: []*vpp_l3.DHCPProxy_DHCPServer{{VrfId: 5, IpAddress: "10.0.1.1"}}},
		inVRF, endDX4("fc00::d4", "in", "10.0.0.1"),
		steerL3("IPv4", "10.52.0.0/16", "FC00:0::b1"),
	}
	free := []proto.Message{
		srPolicyTo("FC00::b1", srWay(0, "fc01::1"), srWay(3, "fc01::2")),
		&vpp_srv6.SRv6Global{EncapSourceAddress: "FD00::1"},
		&vpp_l3.IPScanNeighbor{Mode: vpp_l3.IPScanNeighbor_BOTH, ScanInterval: 2},
		&vpp_punt.ToHost{L3Protocol: vpp_punt.L3Protocol_ALL, L4Protocol: vpp_punt.L4Protocol_UDP, Port: 1234, SocketPath: "/run/a.sock"},
		&vpp_punt.Exception{Reason: "ipsec4-no-such-tunnel", SocketPath: "/run/b.sock"},
	}
	needed := []proto.Message{
		&vpp_l3.VrfTable{Id: 5, Protocol: vpp_l3.VrfTable_IPV6}, &vpp_l3.VrfTable{Id: 5, Protocol: vpp_l3.VrfTable_IPV4},
		loopback("in"), loopback("out"), permitTen("web"),
		&vpp_interfaces.Interface{Name: "wg", Type: vpp_interfaces.Interface_WIREGUARD_TUNNEL, Link: &vpp_interfaces.Interface_Wireguard{
			Wireguard: &vpp_interfaces.WireguardLink{PrivateKey: key(64), Port: 51820, SrcAddr: "192.0.2.1"}}},
	}
	onEachVPP(t, func(t *testing.T, s *site) {
		a := startAgent(t, open(t, s))
		a.commit(true)
		a.commit(false, dependent...)
		for _, v := range dependent {
			if state := a.ValueStatus(models.Key(v)).GetValue().GetState(); state != pb.ValueState_PENDING {
				t.Errorf("without its dependencies, %s is %v", models.Key(v), state)
			}
		}
		a.commit(false, free...)
		a.commit(false, needed...)
		all := slices.Concat(dependent, free, needed)
		a.wantConfigured(all...)
		wantNothing(t, "resync", a.commit(true, all...))
		b := startAgent(t, open(t, s))
		wantNothing(t, "resync after a restart", b.commit(true, all...))
		b.wantConfigured(all...)

		// A change of the attachments does not touch the ABF itself.
		more := proto.CloneOf(abf)
		more.AttachedInterfaces[0].Priority = 9
		b.commit(false, more)
		b.wantConfigured(more)

		b.commit(true)
		wantNothing(t, "second resync without values", b.commit(true))
	})
}
