package integration

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	"github.com/contiv/contiv/test/servicelab"
)

const clientsConfig = `
ipamConfig:
  serviceCIDR: 10.96.0.0/12,fd96::/108
  podSubnetCIDR: 10.1.0.0/16,fd10:1::/48
  vxlanCIDR: 192.168.30.0/24,fd30::/112
  nodeInterconnectCIDR: fd16::/112
  defaultGateway: fd16::fe
`

// clientsService has both IP versions and protocols. Its number determines its addresses and node
// port.
const clientsService = `---
apiVersion: v1
kind: Service
metadata: {name: s%[1]d, namespace: default}
spec:
  type: NodePort
  clusterIP: 10.96.0.%[1]d
  clusterIPs: [10.96.0.%[1]d, "fd96::%[1]d"]
  externalIPs: [198.51.100.%[1]d, "2001:db8::%[1]d"]
  ipFamilies: [IPv4, IPv6]
  %[2]s
  ports:
  - {name: tcp, protocol: TCP, port: 80, targetPort: 8080, nodePort: 300%[1]d}
  - {name: udp, protocol: UDP, port: 80, targetPort: 8080, nodePort: 300%[1]d}
`

const clientsSlice = `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s%[1]d-%[2]s, namespace: default, labels: {kubernetes.io/service-name: s%[1]d}}
addressType: %[3]s
ports: [{name: tcp, protocol: TCP, port: %[4]d}, {name: udp, protocol: UDP, port: %[4]d}]
endpoints: [{addresses: ["%[5]s"], nodeName: %[6]s, conditions: {ready: true}}]
`

// clientsLab has the endpoints "near" on node1 and "far" on node2, and "host" on the host network
// of node1.
type clientsLab struct {
	*lab.Lab
	addrs map[string][]netip.Addr
	ports map[string]int
	nodes map[string]string
}

func TestServicesFromEachClient(t *testing.T) {
	require(t)
	opts := options("sc")
	opts.ContivConfig, opts.ServiceConfig = clientsConfig, "services: vswitch\nresetRemovedEndpoints: true\n"
	l := &clientsLab{labtest.Up(t, opts), map[string][]netip.Addr{}, map[string]int{}, map[string]string{}}
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	node1, node2, outside := l.Name()+"-node1", l.Name()+"-node2", st.Underlay()
	command.In(t, outside, "ip address add fd16::fe/112 dev nodes nodad")
	nodeIPs := labtest.NodeAddresses(t, l.Lab, "node1")
	for _, to := range nodeIPs { // outside clients reach external addresses through node1
		command.In(t, outside, fmt.Sprintf("ip route add %s via %s", map[bool]string{false: "198.51.100.0/24", true: "2001:db8::/64"}[to.Is6()], to))
	}
	for _, node := range []string{node1, node2} { // the lab's nodes have a default route only for IPv4
		command.In(t, node, "ip -6 route add fd96::/108 dev eth0; ip -6 route add 2001:db8::/64 dev eth0")
	}
	pods := labtest.AddPods(t, l.Lab, lab.PodSpec{Name: "near", Node: "node1"}, lab.PodSpec{Name: "far", Node: "node2"},
		lab.PodSpec{Name: "mate", Node: "node1"}, lab.PodSpec{Name: "other", Node: "node2"})
	near, far, mate, other := pods[0], pods[1], pods[2], pods[3]
	labtest.AwaitAddresses(t, l.Lab)
	for _, p := range []lab.Pod{near, far} {
		for _, e := range endpoints(t, l.Lab, p, []string{"10.1.", "fd10:1:"}) {
			l.addrs[p.Name] = append(l.addrs[p.Name], e.Address)
		}
		l.ports[p.Name], l.nodes[p.Name] = 8080, p.Node
		labtest.TellName(t, p.Netns, p.Name, 8080)
	}
	l.addrs["host"], l.ports["host"], l.nodes["host"] = nodeIPs, 8081, "node1"
	labtest.TellName(t, node1, "host", 8081)

	clients := []serviceClient{
		{"a pod of the node", mate.Netns, true, true}, {"a pod of another node", other.Netns, true, false},
		{"a process of the node, as pods on the host network are", node1, false, true}, {"a process of another node", node2, false, false},
		{"outside", outside, false, false}, {"the endpoint itself", near.Netns, true, true},
	}
	const all, keep, inner, host, none, moves = 10, 11, 12, 13, 14, 15
	labtest.Apply(t, l.Lab, l.service(all, "", "near", "far")+l.service(keep, "externalTrafficPolicy: Local", "near", "far")+
		l.service(inner, "internalTrafficPolicy: Local", "near")+l.service(host, "", "host")+l.service(none, "")+l.service(moves, "", "near"))
	await.That(t, "services are there", func() error {
		_, err := labtest.AskName(other.Netns, "udp", netip.AddrPortFrom(clusterAddr(moves, true), 80))
		return err
	})
	labtest.RequireQuiet(t, l.Lab)
	for _, c := range clients {
		for _, ipv6 := range []bool{false, true} {
			for _, network := range []string{"tcp", "udp"} {
				l.requireFrom(t, c, network, ipv6, nodeIPs)
			}
		}
	}
	for _, ipv6 := range []bool{false, true} {
		l.requireMoves(t, clients, ipv6, moves)
	}
}

type serviceClient struct {
	who, netns string
	pod        bool
	node1      bool
}

func (l *clientsLab) requireFrom(t *testing.T, c serviceClient, network string, ipv6 bool, nodeIPs []netip.Addr) {
	t.Helper()
	nodeIP := nodeIPs[0]
	if nodeIP.Is6() != ipv6 {
		nodeIP = nodeIPs[1]
	}
	external := netip.MustParseAddr(map[bool]string{false: "198.51.100.", true: "2001:db8::"}[ipv6] + "11")
	itself := c.who == "the endpoint itself"
	inCluster := c.who != "outside" // outside clients do not translate cluster IPs
	at := func(number int) netip.AddrPort { return netip.AddrPortFrom(clusterAddr(number, ipv6), 80) }
	ways := []struct {
		what  string
		to    netip.AddrPort
		names string // the expected endpoints, "" if the connection is refused
		seen  string // "own": the client's address, "not": another address, "": not checked
		skip  bool
	}{
		{"the cluster IP", at(10), "near far", own(c.pod && !itself), !inCluster},
		{"a node port", netip.AddrPortFrom(nodeIP, 30010), "near far", map[bool]string{true: "not", false: own(c.pod && c.node1 && !itself)}[c.who == "outside"], false},
		{"a node port with the policy Local", netip.AddrPortFrom(nodeIP, 30011), map[bool]string{true: "near far", false: "near"}[c.node1], own(c.who == "outside" || c.who == "a process of another node"), false},
		{"an external address with the policy Local", netip.AddrPortFrom(external, 80), map[bool]string{true: "near far", false: "near"}[c.who != "outside"], own(c.who == "outside"), false},
		{"a cluster IP for clients of the node only", at(12), map[bool]string{true: "near"}[c.node1], "", !inCluster},
		{"an endpoint on the host network", at(13), "host", "", !inCluster || network == "udp"}, // the host replies to its peer directly, as without a service
		{"a service without endpoints", at(14), "", "", !inCluster},
		{"its node port", netip.AddrPortFrom(nodeIP, 30014), "", "", false},
		{"a cluster IP that no service has", at(99), "", "", !inCluster},
	}
	for _, way := range ways {
		if way.skip {
			continue
		}
		name := fmt.Sprintf("%s by %s, %s at %v", c.who, network, way.what, way.to)
		begun := time.Now()
		h, err := labtest.AskName(c.netns, network, way.to)
		took := time.Since(begun)
		if way.names == "" && network == "udp" && errors.Is(err, os.ErrDeadlineExceeded) { // the kernel limits ICMP errors to one per second
			begun = time.Now()
			_, err = labtest.AskName(c.netns, network, way.to)
			took = time.Since(begun)
		}
		switch {
		case way.names == "":
			refused := errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EPERM) && network == "udp"
			if !refused || took > 2*time.Second {
				t.Errorf("%s: %v after %v, want it refused at once", name, err, took)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case !strings.Contains(way.names, h.Name):
			t.Errorf("%s: %s answers, want %s", name, h.Name, way.names)
		case way.seen == "own" && h.Own != h.Seen, way.seen == "not" && h.Own == h.Seen:
			t.Errorf("%s: the endpoint sees %v, the client is %v", name, h.Seen, h.Own)
		}
	}
}

func own(yes bool) string {
	if yes {
		return "own"
	}
	return ""
}

// requireMoves replaces the endpoint of a service while each client has open flows. UDP flows move,
// and TCP connections are reset, as configured in service.conf.
func (l *clientsLab) requireMoves(t *testing.T, clients []serviceClient, ipv6 bool, number int) {
	t.Helper()
	to := netip.AddrPortFrom(clusterAddr(number, ipv6), 80)
	labtest.Apply(t, l.Lab, l.service(number, "", "near"))
	flows, conns := map[string]net.Conn{}, map[string]net.Conn{}
	for _, c := range clients {
		if c.who == "outside" {
			continue
		}
		await.That(t, c.who+" reaches the first endpoint", func() error {
			h, err := labtest.AskName(c.netns, "udp", to)
			if err == nil && h.Name != "near" {
				err = fmt.Errorf("%s answers", h.Name)
			}
			return err
		})
		for network, open := range map[string]map[string]net.Conn{"udp": flows, "tcp": conns} {
			conn, err := labtest.Dial(c.netns, network, to)
			if err == nil {
				_, err = labtest.Say(conn)
			}
			if err != nil {
				t.Fatalf("%s by %s: %v", c.who, network, err)
			}
			defer conn.Close()
			open[c.who] = conn
		}
	}
	expect := func(when, want string) {
		t.Helper()
		for who, flow := range flows {
			await.That(t, fmt.Sprintf("%s, the flow of %s", when, who), func() error {
				h, err := labtest.Say(flow)
				if refused := errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EPERM); want == "" && refused {
					return nil
				}
				if h.Name != want {
					return fmt.Errorf("%q answers %v (%v), want %q", h.Name, to, err, want)
				}
				return nil
			})
		}
	}
	expect("at first", "near")
	labtest.Delete(t, l.Lab, l.service(number, "", "near"))
	labtest.Apply(t, l.Lab, l.service(number, "", "far"))
	expect("when the endpoint is another one", "far")
	for who, conn := range conns {
		if _, err := labtest.Say(conn); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the connection of %s to an endpoint that is gone: %v, want it reset", who, err)
		}
	}
	labtest.Delete(t, l.Lab, l.service(number, "", "far"))
	labtest.Apply(t, l.Lab, l.service(number, ""))
	expect("without endpoint", "")
	labtest.Apply(t, l.Lab, l.service(number, "", "near"))
	expect("when the first endpoint is there", "near")
}

func clusterAddr(number int, ipv6 bool) netip.Addr {
	return netip.MustParseAddr(map[bool]string{false: "10.96.0.", true: "fd96::"}[ipv6] + fmt.Sprint(number))
}

func (l *clientsLab) service(number int, more string, endpoints ...string) string {
	text := fmt.Sprintf(clientsService, number, more)
	for _, name := range endpoints {
		for _, addr := range l.addrs[name] {
			version := map[bool]string{false: "IPv4", true: "IPv6"}[addr.Is6()]
			text += fmt.Sprintf(clientsSlice, number, name+"-"+strings.ToLower(version), version, l.ports[name], addr, l.nodes[name])
		}
	}
	return text
}

func TestServicesUseEndpoints(t *testing.T) {
	require(t)
	opts := options("se")
	opts.ContivConfig, opts.ServiceConfig = servicelab.Config, servicelab.ServiceConfig
	l := labtest.Up(t, opts)
	t.Run("endpoints", func(t *testing.T) { servicelab.Endpoints(t, l) })
	t.Run("load balancers", func(t *testing.T) { servicelab.LoadBalancers(t, l) })
	t.Run("session affinity", func(t *testing.T) { servicelab.Affinity(t, l) })
	t.Run("removed endpoints", func(t *testing.T) { servicelab.RemovedEndpoints(t, l) })
}

func TestServiceConfig(t *testing.T) {
	require(t)
	opts := options("so")
	opts.ContivConfig, opts.ServiceConfig = servicelab.Config, servicelab.Settings
	l := labtest.Up(t, opts)
	t.Run("settings", func(t *testing.T) { servicelab.FollowSettings(t, l) })
	t.Run("a new address of a node", func(t *testing.T) { servicelab.NewNodeAddress(t, l) })
}

func TestServicesUnderChurn(t *testing.T) {
	require(t)
	opts := options("ch")
	opts.ContivConfig, opts.ServiceConfig = servicelab.Config, servicelab.ServiceConfig
	servicelab.Churn(t, labtest.Up(t, opts))
}
