package kernel

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// BenchmarkPolicies measures opening a TCP connection to a pod that a policy selects: among pods
// that other policies select, and with further policies of the pod that are evaluated first and do
// not permit the client.
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

// BenchmarkTrafficOfPodsWithPolicies measures a stream, a ping-pong and opening TCP connections
// between two pods without policies, and between pods with 100 and 5 000 policies for egress and
// ingress. The variants alternate, so that noise affects all. It reports the median ratio of each
// variant to no policies.
func BenchmarkTrafficOfPodsWithPolicies(b *testing.B) {
	const pause = 60 * time.Millisecond
	turns := 45
	if testing.Short() {
		turns = 3
	}
	numbers := []int{0, 100, 5000}
	site := newNode(b)
	v := site.Open(b).(*VSwitch)
	b.Cleanup(func() { v.Close() })
	addrs, pods := wirePods(b, site, v, 2*len(numbers))
	var values []proto.Message
	for i, n := range numbers {
		values = append(values, policiesBetween(n, addrs[2*i], addrs[2*i+1])...)
	}
	check(b, v.Filter().Set(b.Context(), values...))
	kinds := []struct {
		name string
		of   func(b *testing.B, address string, during time.Duration) float64
	}{{"stream", stream}, {"pingpong", pingPong}, {"connections", connections}}
	addresses := make([]string, len(numbers))
	for i := range numbers {
		addresses[i] = echoServer(b, pods[2*i+1], addrs[2*i+1])
	}
	for b.Loop() {
		for _, kind := range kinds {
			ratios := map[int][]float64{}
			for turn := range turns {
				rates := make([]float64, len(numbers))
				for k := range numbers {
					i := (k + turn) % len(numbers)
					inHost(b, pods[2*i], func() (struct{}, error) {
						rates[i] = kind.of(b, addresses[i], pause)
						return struct{}{}, nil
					})
				}
				for i, n := range numbers {
					ratios[n] = append(ratios[n], rates[i]/rates[0])
				}
			}
			for _, n := range numbers[1:] {
				slices.Sort(ratios[n])
				b.ReportMetric(ratios[n][turns/2], fmt.Sprintf("%s-of-%d/none", kind.name, n))
			}
		}
	}
}

// policiesBetween returns n policies each for a client and a server: in turn with one port, a range
// of ports, and all ports. The last ones let the client reach the server.
func policiesBetween(n int, client, server string) (values []proto.Message) {
	type rule = contiv_filter.AccessList_Rule
	if n == 0 {
		return nil
	}
	add := func(direction contiv_filter.AccessList_Direction, peer string) (lists []string) {
		for i := range n {
			name := fmt.Sprintf("%v %s %d", direction, peer, i)
			r, addr := &rule{AddressSets: []string{name}}, fmt.Sprintf("10.2.%d.%d", i/250, i%250)
			switch {
			case i == n-1:
				addr = peer
			case i%3 == 0:
				r.Ports = []*contiv_filter.AccessList_Ports{{First: uint32(1 + i), Last: uint32(1 + i)}}
			case i%3 == 1:
				r.Ports = []*contiv_filter.AccessList_Ports{{First: 8000, Last: 9000}}
			}
			values = append(values, &contiv_filter.AddressSet{Name: name, Addresses: []string{addr}}, &contiv_filter.AccessList{Name: name, Direction: direction, Rules: []*rule{r}})
			lists = append(lists, name)
		}
		return lists
	}
	stages := func(lists []string) []*contiv_filter.Subject_Stage {
		return []*contiv_filter.Subject_Stage{{Lists: lists, Deny: true}}
	}
	return append(values,
		&contiv_filter.Subject{Name: client, Addresses: []string{client}, Egress: stages(add(contiv_filter.AccessList_EGRESS, server))},
		&contiv_filter.Subject{Name: server, Addresses: []string{server}, Ingress: stages(add(contiv_filter.AccessList_INGRESS, client))})
}

func echoServer(b *testing.B, pod *vswitchtest.Host, addr string) (address string) {
	listener := inHost(b, pod, func() (net.Listener, error) { return net.Listen("tcp", net.JoinHostPort(addr, "0")) })
	b.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buffer := make([]byte, 1<<17)
				for {
					n, err := c.Read(buffer)
					if err == nil && n == 1 {
						_, err = c.Write(buffer[:n])
					}
					if err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

func rate(b *testing.B, during time.Duration, do func() (float64, error)) float64 {
	sum, began := 0.0, time.Now()
	for time.Since(began) < during {
		n, err := do()
		if err != nil {
			b.Fatal(err)
		}
		sum += n
	}
	return sum / time.Since(began).Seconds()
}

func stream(b *testing.B, address string, during time.Duration) float64 {
	c, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	piece := make([]byte, 1<<17)
	return rate(b, during, func() (float64, error) {
		n, err := c.Write(piece)
		return float64(n), err
	})
}

func pingPong(b *testing.B, address string, during time.Duration) float64 {
	c, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	piece := []byte("?")
	return rate(b, during, func() (float64, error) {
		if _, err := c.Write(piece); err != nil {
			return 0, err
		}
		_, err := io.ReadFull(c, piece)
		return 1, err
	})
}

func connections(b *testing.B, address string, during time.Duration) float64 {
	return rate(b, during, func() (float64, error) {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return 0, err
		}
		_ = c.(*net.TCPConn).SetLinger(0)
		return 1, c.Close()
	})
}

func twoPods(t testing.TB, site *node, v *VSwitch) (addrs []string, pods []*vswitchtest.Host) {
	return wirePods(t, site, v, 2)
}

func wirePods(t testing.TB, site *node, v *VSwitch, n int) (addrs []string, pods []*vswitchtest.Host) {
	gateway := "10.1.1.1"
	for i := range n {
		addrs = append(addrs, fmt.Sprint("10.1.1.", 2+i))
	}
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
