package vpp

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/internal/vswitch/policyrules"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/contiv/contiv/test/await"
)

// Denied packets are counted exactly by pod, direction and cause, across replaced lists. On
// request, connections are reported. An operator's packet capture is not disturbed.
func TestDenialsAreCounted(t *testing.T) {
	s, v := newRealSite(t)
	pods := map[string]*vswitchtest.Host{"a": s.attachPod(t, v, "a", "10.1.0.2/24", "10.1.0.1"), "b": s.attachPod(t, v, "b", "10.2.0.2/24", "10.2.0.1")}
	client, server := netip.MustParseAddr("10.1.0.2"), netip.MustParseAddr("10.2.0.2")
	ping(t, pods["a"], server.String()) // addresses are resolved
	if d, err := v.Denials(t.Context(), false); err != nil || len(d.Subjects)+len(d.Flows) > 0 {
		t.Fatalf("without policies: %+v, %v", d, err)
	}
	ports := func(first, last uint32) []*contiv_filter.AccessList_Ports {
		return []*contiv_filter.AccessList_Ports{{Protocol: contiv_filter.Protocol_UDP, First: first, Last: last}}
	}
	open := func(port uint32) *contiv_filter.AccessList {
		return &contiv_filter.AccessList{Name: "open", Rules: []*contiv_filter.AccessList_Rule{{Ports: ports(port, port)}}}
	}
	must(t, v.Filter().Set(t.Context(), open(80),
		&contiv_filter.AccessList{Name: "guard", Rules: []*contiv_filter.AccessList_Rule{{Action: contiv_filter.AccessList_DENY, Ports: ports(99, 99)}}},
		&contiv_filter.Subject{Name: "server", Interface: "b", Addresses: []string{server.String()}, Ingress: []*contiv_filter.Subject_Stage{{Lists: []string{"guard"}}, {Lists: []string{"open"}, Deny: true}}},
		&contiv_filter.AccessList{Name: "out", Direction: contiv_filter.AccessList_EGRESS, Rules: []*contiv_filter.AccessList_Rule{{Networks: []string{"10.2.0.2/32"}}}},
		&contiv_filter.Subject{Name: "client", Interface: "a", Addresses: []string{client.String()}, Egress: []*contiv_filter.Subject_Stage{{Lists: []string{"out"}, Deny: true}}}))
	send := func(to netip.Addr, ports ...int) {
		t.Helper()
		inHost(t, pods["a"], func() (struct{}, error) {
			c, err := net.ListenPacket("udp", client.String()+":7777")
			if err != nil {
				return struct{}{}, err
			}
			defer c.Close()
			for _, port := range ports {
				if _, err := c.WriteTo([]byte("x"), &net.UDPAddr{IP: to.AsSlice(), Port: port}); err != nil {
					return struct{}{}, err
				}
			}
			return struct{}{}, nil
		})
	}
	isolated := policyrules.DeniedSubject{Address: server, Direction: contiv_filter.AccessList_INGRESS, Packets: 3}
	byRule := policyrules.DeniedSubject{Address: server, Direction: contiv_filter.AccessList_INGRESS, ByRule: true, Packets: 2}
	egress := policyrules.DeniedSubject{Address: client, Direction: contiv_filter.AccessList_EGRESS, Packets: 1}
	want := func(what string, live bool, flows ...policyrules.DeniedFlow) {
		t.Helper()
		await.That(t, what, func() error {
			d, err := v.Denials(t.Context(), live)
			if err != nil {
				return err
			}
			for _, w := range []policyrules.DeniedSubject{isolated, byRule, egress} {
				if !slices.Contains(d.Subjects, w) || len(d.Subjects) != 3 {
					return fmt.Errorf("%+v, want %+v", d.Subjects, w)
				}
			}
			for _, w := range flows {
				if !slices.Contains(d.Flows, w) {
					return fmt.Errorf("%+v, want %+v, %s", d.Flows, w, d.NoFlows)
				}
			}
			if len(d.Flows) != len(flows) || d.NoFlows != "" {
				return fmt.Errorf("%+v, want %+v, %s", d.Flows, flows, d.NoFlows)
			}
			return nil
		})
	}
	send(server, 80, 53, 54, 55, 99, 99) // the first one passes
	send(netip.MustParseAddr("10.2.0.9"), 53)
	want("all is counted", false)

	must(t, v.Filter().Set(t.Context(), open(81))) // VPP counts from zero
	send(server, 81, 80)
	isolated.Packets++
	want("it goes on where it was", true)

	flow := func(to string, port uint16, packets uint64) policyrules.DeniedFlow {
		return policyrules.DeniedFlow{Src: client, Dst: netip.MustParseAddr(to), Protocol: policyrules.UDP, Port: port, Packets: packets}
	}
	send(server, 53, 53, 81, 99)
	send(netip.MustParseAddr("10.2.0.9"), 53)
	isolated.Packets, byRule.Packets, egress.Packets = isolated.Packets+2, byRule.Packets+1, egress.Packets+1
	all := []policyrules.DeniedFlow{flow("10.2.0.2", 53, 2), flow("10.2.0.2", 99, 1), flow("10.2.0.9", 53, 1)}
	want("connections are reported live", true, all...)
	want("and after the last request", false, all...)

	const flood = 5000
	for range flood / 100 {
		send(server, slices.Repeat([]int{1000}, 100)...)
	}
	isolated.Packets += flood
	want("a flood is counted", false, all...)

	if _, err := v.vpp.CLI(t.Context(), fmt.Sprintf("pcap trace drop max 5 file contiv-test-%d", os.Getpid())); err != nil {
		t.Fatal(err)
	}
	d, err := v.Denials(t.Context(), true)
	if err != nil || d.NoFlows == "" || len(d.Subjects) != 3 {
		t.Errorf("while an operator captures packets: %+v, %v", d, err)
	}
	if _, err := v.vpp.CLI(t.Context(), "pcap trace off"); err == nil {
		t.Error("there were packets in the capture of the operator")
	}
}
