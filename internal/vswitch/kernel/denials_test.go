package kernel

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/internal/vswitch/policyrules"
	"github.com/contiv/contiv/test/await"
)

// Denials are counted exactly by pod, direction and cause, and reported with their destinations. A
// flood to random ports is counted in full and reported in part.
func TestDenialsAreCounted(t *testing.T) {
	site := newNode(t)
	v := site.Open(t).(*VSwitch)
	defer v.Close()
	if d, err := v.Denials(t.Context(), false); err != nil || len(d.Subjects)+len(d.Flows) > 0 {
		t.Fatalf("without policies: %+v, %v", d, err)
	}
	addrs, pods := twoPods(t, site, v)
	site.Exec(t, "ip link set dev "+nic+" up")
	site.Exec(t, "ip route add 192.0.2.0/24 dev "+nic)
	const udp = contiv_filter.Protocol_UDP
	ports := func(first, last uint32) []*contiv_filter.AccessList_Ports {
		return []*contiv_filter.AccessList_Ports{{Protocol: udp, First: first, Last: last}}
	}
	check(t, v.Filter().Set(t.Context(),
		&contiv_filter.AccessList{Name: "guard", Rules: []*contiv_filter.AccessList_Rule{{Action: contiv_filter.AccessList_DENY, Ports: ports(99, 99)}}},
		&contiv_filter.AccessList{Name: "open", Rules: []*contiv_filter.AccessList_Rule{{Ports: ports(80, 80)}}},
		&contiv_filter.Subject{Name: "server", Addresses: addrs[1:], Ingress: []*contiv_filter.Subject_Stage{{Lists: []string{"guard"}}, {Lists: []string{"open"}, Deny: true}}},
		&contiv_filter.AccessList{Name: "out", Direction: contiv_filter.AccessList_EGRESS, Rules: []*contiv_filter.AccessList_Rule{{Networks: []string{"10.1.0.0/16"}}}},
		&contiv_filter.Subject{Name: "client", Addresses: addrs[:1], Egress: []*contiv_filter.Subject_Stage{{Lists: []string{"out"}, Deny: true}}}))
	send := func(to string, first, last int) {
		t.Helper()
		inHost(t, pods[0], func() (struct{}, error) {
			c, err := net.ListenPacket("udp", addrs[0]+":7777")
			if err != nil {
				return struct{}{}, err
			}
			defer c.Close()
			for port := first; port <= last; port++ {
				if _, err := c.WriteTo([]byte("x"), &net.UDPAddr{IP: net.ParseIP(to), Port: port}); err != nil {
					return struct{}{}, err
				}
			}
			return struct{}{}, nil
		})
	}
	wantCounts := func(want ...policyrules.DeniedSubject) policyrules.Denials {
		t.Helper()
		var d policyrules.Denials
		await.That(t, "counts", func() (err error) { // forwarding may be delayed
			d, err = v.Denials(t.Context(), false)
			for _, w := range want {
				if err == nil && (len(d.Subjects) != len(want) || !slices.Contains(d.Subjects, w)) {
					err = fmt.Errorf("%+v, want %+v", d.Subjects, want)
				}
			}
			return err
		})
		return d
	}
	client, server := netip.MustParseAddr(addrs[0]), netip.MustParseAddr(addrs[1])
	flow := func(to netip.Addr, port uint16, packets uint64) policyrules.DeniedFlow {
		return policyrules.DeniedFlow{Src: client, Dst: to, Protocol: 17, Port: port, Packets: packets}
	}
	isolated := policyrules.DeniedSubject{Address: server, Direction: contiv_filter.AccessList_INGRESS, Packets: 3}
	byRule := policyrules.DeniedSubject{Address: server, Direction: contiv_filter.AccessList_INGRESS, ByRule: true, Packets: 2}
	egress := policyrules.DeniedSubject{Address: client, Direction: contiv_filter.AccessList_EGRESS, Packets: 1}
	send(addrs[1], 80, 80)
	send(addrs[1], 53, 55)
	send(addrs[1], 99, 99)
	send(addrs[1], 99, 99)
	send("192.0.2.1", 53, 53)
	d := wantCounts(isolated, byRule, egress)
	for _, want := range []policyrules.DeniedFlow{flow(server, 54, 1), flow(server, 99, 2), flow(netip.MustParseAddr("192.0.2.1"), 53, 1)} {
		if !slices.Contains(d.Flows, want) || len(d.Flows) != 5 {
			t.Errorf("%+v, want %+v among five", d.Flows, want)
		}
	}
	if out, err := pods[0].Try("ping -c1 -W1 " + addrs[1]); err == nil {
		t.Errorf("an answer: %s", out)
	}
	isolated.Packets++
	d = wantCounts(isolated, byRule, egress)
	if !slices.Contains(d.Flows, policyrules.DeniedFlow{Src: client, Dst: server, Protocol: 1, Packets: 1}) {
		t.Errorf("%+v: no ping", d.Flows)
	}

	// A server's packets on a connection that became forbidden are counted, but not reported as
	// connection attempts.
	server0 := inHost(t, pods[1], func() (net.PacketConn, error) { return net.ListenPacket("udp", addrs[1]+":80") })
	defer server0.Close()
	send(addrs[1], 80, 80)
	_, from, err := server0.ReadFrom(make([]byte, 1))
	check(t, err)
	check(t, v.Filter().Set(t.Context(), &contiv_filter.AccessList{Name: "open"}))
	_, err = server0.WriteTo([]byte("x"), from)
	check(t, err)
	isolated.Packets++
	if d := wantCounts(isolated, byRule, egress); slices.ContainsFunc(d.Flows, func(f policyrules.DeniedFlow) bool { return f.Port == 7777 || f.Port == 80 }) {
		t.Errorf("a reply is reported as a denied connection: %+v", d.Flows)
	}

	const flood = 30000
	send(addrs[1], 1000, 999+flood)
	isolated.Packets += flood
	d = wantCounts(isolated, byRule, egress)
	if n := len(d.Flows); n < 50 || n > 5000 {
		t.Errorf("%d of %d flows are reported, want some", n, flood)
	}
	out := site.Exec(t, "nft list table inet contiv-policy")
	for _, want := range []string{"set isolated-in4", "set flows4", "limit rate 50/second burst 100 packets jump flows"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out[:min(len(out), 4000)])
		}
	}

}
