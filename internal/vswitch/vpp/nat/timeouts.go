package nat

import (
	"cmp"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"go.fd.io/govpp/binapi/nat44_ed"
	"go.fd.io/govpp/binapi/nat_types"
)

// defaultTimeouts are VPP's initial timeouts.
var defaultTimeouts = nat_types.NatTimeouts{UDP: 300, TCPEstablished: 7440, TCPTransitory: 240, ICMP: 60}

// timeoutsOf returns the request for a value's timeouts.
func timeoutsOf(g *vpp_nat.Nat44Global) *nat44_ed.NatSetTimeouts {
	tcp, other := g.GetTcpSessionTimeout(), g.GetOtherSessionTimeout()
	return &nat44_ed.NatSetTimeouts{
		TCPEstablished: cmp.Or(tcp, defaultTimeouts.TCPEstablished), TCPTransitory: cmp.Or(other, defaultTimeouts.TCPTransitory),
		UDP: cmp.Or(other, defaultTimeouts.UDP), ICMP: cmp.Or(other, defaultTimeouts.ICMP),
	}
}

// readTimeouts describes VPP's timeouts, in the expected form if equal.
func readTimeouts(now nat_types.NatTimeouts, expected, g *vpp_nat.Nat44Global) {
	want := timeoutsOf(expected)
	g.TcpSessionTimeout, g.OtherSessionTimeout = expected.GetTcpSessionTimeout(), expected.GetOtherSessionTimeout()
	if now.TCPEstablished != want.TCPEstablished {
		g.TcpSessionTimeout = now.TCPEstablished
	}
	for _, t := range [][2]uint32{{now.TCPTransitory, want.TCPTransitory}, {now.UDP, want.UDP}, {now.ICMP, want.ICMP}} {
		if t[0] != t[1] {
			g.OtherSessionTimeout = t[0]
		}
	}
}
