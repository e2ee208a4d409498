package kernel

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/vswitch/vswitchtest"
	"google.golang.org/protobuf/proto"
)

// BenchmarkPolicies measures opening a TCP connection to a pod that a policy selects: beside
// pods that other policies select, and with further policies that select it and do not permit
// the client, before the one that does.
func BenchmarkPolicies(b *testing.B) {
	for _, where := range []string{"of others", "of its own"} {
		for _, n := range []int{1, 100, 5000} {
			b.Run(fmt.Sprintf("%d %s", n, where), func(b *testing.B) { benchPolicies(b, n, where == "of others") })
		}
	}
}

func benchPolicies(b *testing.B, n int, ofOthers bool) {
	site := newNode(b)
	v := site.Open(b).(*VSwitch)
	b.Cleanup(func() { v.Close() })
	addrs, pods := twoPods(b, site, v)
	subject := func(name, addr string, lists ...string) *contiv_filter.Subject {
		return &contiv_filter.Subject{Name: name, Addresses: []string{addr}, Ingress: []*contiv_filter.Subject_Stage{{Lists: lists, Deny: true}}}
	}
	policy := func(name string, clients ...string) (list string, values []proto.Message) {
		return name, []proto.Message{&contiv_filter.AddressSet{Name: name, Addresses: clients},
			&contiv_filter.AccessList{Name: name, Rules: []*contiv_filter.AccessList_Rule{{AddressSets: []string{name}}}}}
	}
	var own []string
	var all []proto.Message
	for i := range n {
		other := fmt.Sprintf("10.2.%d.%d", i/250, i%250)
		list, values := policy(fmt.Sprint("policy ", i), other)
		if all = append(all, values...); ofOthers {
			all = append(all, subject("other "+other, other, list))
		} else {
			own = append(own, list)
		}
	}
	list, values := policy("permits", addrs[0])
	check(b, v.Filter().Set(b.Context(), append(append(all, values...), subject("server", addrs[1], append(own, list)...))...))

	listener := inHost(b, pods[1], func() (net.Listener, error) { return net.Listen("tcp", net.JoinHostPort(addrs[1], "0")) })
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(io.Discard, c)
			}()
		}
	}()
	inHost(b, pods[0], func() (struct{}, error) {
		for b.Loop() {
			c, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				return struct{}{}, err
			}
			_ = c.(*net.TCPConn).SetLinger(0)
			c.Close()
		}
		return struct{}{}, nil
	})
}

// twoPods wires pods, which reach each other over the node.
func twoPods(t testing.TB, site *node, v *VSwitch) (addrs []string, pods []*vswitchtest.Host) {
	addrs, gateway := []string{"10.1.1.2", "10.1.1.3"}, "10.1.1.1"
	for i, addr := range addrs {
		name := fmt.Sprintf("tap%d", i)
		check(t, v.Interfaces().Create(t.Context(), tap(name)))
		check(t, v.Interfaces().AddAddress(t.Context(), name, netip.MustParsePrefix(gateway+"/32")))
		check(t, v.Routes().Create(t.Context(), &vpp_l3.Route{DstNetwork: addr + "/32", OutgoingInterface: name}))
		pod := site.Plug(t, models.TapHostIfName(name))
		for _, command := range []string{"ip link set dev eth0 up", "ip addr add " + addr + "/32 dev eth0",
			"ip route add " + gateway + "/32 dev eth0", "ip route add default via " + gateway + " dev eth0"} {
			pod.Exec(t, command)
		}
		pods = append(pods, pod)
	}
	return addrs, pods
}
