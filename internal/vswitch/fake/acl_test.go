package fake_test

import (
	"net/netip"
	"testing"

	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	"github.com/contiv/contiv/internal/vswitch/fake"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"google.golang.org/protobuf/proto"
)

// A pod that accepts connections on TCP port 80 only.
func isolated(t *testing.T, iface string) []proto.Message {
	t.Helper()
	tcp80 := &vpp_acl.ACL_Rule_IpRule{Tcp: &vpp_acl.ACL_Rule_IpRule_Tcp{
		DestinationPortRange: &vpp_acl.ACL_Rule_IpRule_PortRange{LowerPort: 80, UpperPort: 80},
	}}
	return []proto.Message{
		&vpp_acl.ACL{
			Name: "a", Rules: []*vpp_acl.ACL_Rule{{Action: vpp_acl.ACL_Rule_REFLECT, IpRule: &vpp_acl.ACL_Rule_IpRule{}}},
			Interfaces: &vpp_acl.ACL_Interfaces{Ingress: []string{iface}},
		},
		&vpp_acl.ACL{
			Name: "b", Rules: []*vpp_acl.ACL_Rule{{Action: vpp_acl.ACL_Rule_PERMIT, IpRule: tcp80}, {IpRule: &vpp_acl.ACL_Rule_IpRule{}}},
			Interfaces: &vpp_acl.ACL_Interfaces{Egress: []string{iface}},
		},
		&vpp_acl.ACL{
			Name: "macs", Rules: []*vpp_acl.ACL_Rule{{Action: vpp_acl.ACL_Rule_PERMIT, MacipRule: &vpp_acl.ACL_Rule_MacIpRule{SourceMacAddress: "02:00:00:00:00:01"}}},
			Interfaces: &vpp_acl.ACL_Interfaces{Ingress: []string{iface}},
		},
	}
}

func TestTraceThroughAccessLists(t *testing.T) {
	topo := vswitchtest.Topology{Node: 1, NIC: nic, Pods: 2}
	n := fake.NewNetwork().NewNode("n", kernelLike, nic)
	configure(t, n, append(topo.Values(), isolated(t, topo.Tap(1))...)...)
	one, two := netip.MustParseAddr(topo.PodIP(1)), netip.MustParseAddr(topo.PodIP(2))
	in := fake.Packet{Src: two, Dst: one, Protocol: 6, SrcPort: 5000, DstPort: 80}
	udpIn := fake.Packet{Src: two, Dst: one, Protocol: 17, SrcPort: 53, DstPort: 5000}
	udpOut := fake.Packet{Src: one, Dst: two, Protocol: 17, SrcPort: 5000, DstPort: 53}
	mac := udpOut
	mac.SrcMAC = [6]byte{2, 0, 0, 0, 0, 2}
	rightMAC := udpOut
	rightMAC.SrcMAC = [6]byte{2, 0, 0, 0, 0, 1}
	otherPort := in
	otherPort.DstPort = 81
	for _, step := range []struct {
		name    string
		from    string
		packet  fake.Packet
		verdict fake.Verdict
	}{
		{"permitted port", topo.Tap(2), in, fake.Delivered},
		{"other port", topo.Tap(2), otherPort, fake.Dropped},
		{"unsolicited UDP", topo.Tap(2), udpIn, fake.Dropped},
		{"with another's MAC address", topo.Tap(1), mac, fake.Dropped},
		{"unsolicited UDP, still", topo.Tap(2), udpIn, fake.Dropped},
		{"UDP question", topo.Tap(1), rightMAC, fake.Delivered},
		{"UDP answer", topo.Tap(2), udpIn, fake.Delivered},
		{"not the TCP packet with the same numbers", topo.Tap(2), fake.Packet{Src: two, Dst: one, Protocol: 6, SrcPort: 53, DstPort: 5000}, fake.Dropped},
	} {
		if trace := n.Trace(step.from, step.packet); trace.Verdict != step.verdict {
			t.Errorf("%s: want %v\n%s", step.name, step.verdict, trace)
		}
	}
	if !n.Break("config/vpp/acls/v2/acl/b") {
		t.Fatal("list b does not exist")
	}
}
